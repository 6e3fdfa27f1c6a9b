"""Tests: what Remit promises, as sentences that run."""
