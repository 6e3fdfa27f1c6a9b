"""Remit: durable execution that does not confuse *can continue* with *may continue*."""
