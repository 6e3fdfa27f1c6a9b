-- Every name begins with `remit_`: an application's tables stand in the same file, and may be called `run` or `outbox`.
-- Counters of AUTOINCREMENT go with their tables; an index can't be renamed. A crash in here leaves the old names.

ALTER TABLE ledger RENAME TO remit_ledger;
ALTER TABLE migration RENAME TO remit_migration;
ALTER TABLE run RENAME TO remit_run;
ALTER TABLE entry RENAME TO remit_entry;
ALTER TABLE blob RENAME TO remit_blob;
ALTER TABLE worker RENAME TO remit_worker;
ALTER TABLE business_key RENAME TO remit_business_key;
ALTER TABLE ceiling RENAME TO remit_ceiling;
ALTER TABLE ask RENAME TO remit_ask;
ALTER TABLE ask_open RENAME TO remit_ask_open;
ALTER TABLE outbox RENAME TO remit_outbox;

DROP INDEX IF EXISTS run_by_tenant;
DROP INDEX IF EXISTS run_by_status;
DROP INDEX IF EXISTS ask_open_by_number;

CREATE INDEX remit_run_by_tenant ON remit_run (tenant, run_key);
CREATE INDEX remit_run_by_status ON remit_run (tenant, status, run_key);
CREATE INDEX remit_ask_open_by_number ON remit_ask_open (number);
