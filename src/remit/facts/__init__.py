"""What happened: entries, their chain, the life of a run. Pure: no I/O, no clock."""
