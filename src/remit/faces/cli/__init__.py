"""The command line: `remit`."""
