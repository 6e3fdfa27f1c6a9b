"""Examples: small programs that use Remit as anybody would, through its public names alone."""
