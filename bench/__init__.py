"""Measurements: what a step, a crash and a byte cost, beside what the database alone can do.

    python -m bench                          everything, on SQLite and Postgres
    python -m bench seq conc --store sqlite  some figures, on one store
    python -m bench profile conc --store sqlite

A figure is the median of repetitions. Each repetition begins with an empty store and a new
process, and measures the bare database in that same process: machines differ and
neighbours make noise, so the ratio says more than the rate. No test of the suite is timed.
"""
