"""What one process knows and holds: the store, the clocks, leases, who may do what, and runs as they are found."""
