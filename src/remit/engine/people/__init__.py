"""What others do about a run without holding it: they look, answer, cancel, say what became of an effect."""
