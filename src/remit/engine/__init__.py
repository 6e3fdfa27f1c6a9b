"""What makes it happen: flows, calls, attempts, leases."""
