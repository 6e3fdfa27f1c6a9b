"""A run from its opening to its end: what the flow is handed, one attempt after another, and how each ends."""
