"""One worker's turn at a run: its journal, the replay of what is recorded, and the calls that stay inside."""
