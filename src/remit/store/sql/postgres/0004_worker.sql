-- Where a worker keeps its lock file follows from its name. A path that stands in the database can be made to lead to a
-- file that nobody locks, and the worker would be taken for dead while it pays.

ALTER TABLE remit.worker DROP COLUMN lock_path;
