"""How people reach it: the runtime, the list form, the command line."""
