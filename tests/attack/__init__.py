"""Attacks, one test each, with the exact answer."""
