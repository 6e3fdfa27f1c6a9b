-- Everything that Remit asks of SQLite. All values are bound: by number, or by name where there are many.
-- Every table of ours begins with `remit_`: an application's tables stand in the same file, under names of its own.

-- part: extended
-- Head, epoch and lease are as the unit says; :epoch is NULL where none is held, :post_head where lane post may move.
run_key = :run_key AND head = :head_before AND quarantined = 0
  AND (:epoch IS NULL OR (epoch = :epoch AND lease_until > :now))
  AND (:post_head IS NULL OR post_head = :post_head)

-- part: open
-- Statuses of runs that are not over.
('queued', 'running', 'waiting', 'paused', 'in_doubt')

-- part: listed
-- Which runs a list may show; journals of Remit's own are no runs.
tenant = ?1 AND (?2 IS NULL OR flow = ?2) AND (?3 IS NULL OR quarantined = ?3) AND run_key < ?4
  AND substr(run, 1, 6) <> 'remit:'

-- part: run_new
-- What a run's row is given when it is made.
tenant, run, gen, flow, "by", status, code, quarantined, opened_at, window_end,
  head, seq, post_head, post_seq, epoch, worker, lease_until

-- part: run_row
-- The same with its key: the columns of RunRow, in their order.
run_key, {run_new}

-- part: ask_row
-- The columns of AskRow but the last, in their order.
a.number, a.ask, a.run_key, a.run, a.call, a.roles, a.asked_at, a.until

-- name: advance
-- Move the end of lane main, if head, epoch and lease are as the unit says.
UPDATE remit_run SET head = :head_after, seq = :seq_after
WHERE {extended};

-- name: advance_and_move
-- The same, with new index values.
UPDATE remit_run SET head = :head_after, seq = :seq_after, status = :status, code = :code,
  worker = CASE :release WHEN 1 THEN NULL ELSE worker END,
  lease_until = CASE :release WHEN 1 THEN 0 ELSE lease_until END
WHERE {extended};

-- name: advance_post
-- Move the end of lane post of a run that has not ended; needs no lease.
UPDATE remit_run SET post_head = :head_after, post_seq = :seq_after
WHERE run_key = :run_key AND post_head = :head_before AND quarantined = 0 AND status IN {open}
  AND (:post_head IS NULL OR post_head = :post_head);

-- name: read_ends
-- Where both lanes of a journal end.
SELECT head, post_head FROM remit_run WHERE run_key = ?1;

-- name: take_key
-- Hold a business key for one call of a run; gives no row where another call or run holds it.
INSERT INTO remit_business_key (tenant, key, run_key, run, call) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (tenant, key) DO UPDATE SET call = ?5 WHERE run_key = ?3 AND call = ?5
RETURNING run_key;

-- name: free_key
-- Give a business key back that this run holds.
DELETE FROM remit_business_key WHERE tenant = ?1 AND key = ?2 AND run_key = ?3;

-- name: reserve
-- Add to what is used of a ceiling; gives no row where that would be more than ?4.
INSERT INTO remit_ceiling (tenant, scope, used) SELECT ?1, ?2, ?3 WHERE ?3 <= ?4
ON CONFLICT (tenant, scope) DO UPDATE SET used = used + ?3 WHERE used <= ?4 - ?3
RETURNING used;

-- name: unreserve
-- Take back what was reserved, and never more than is there.
UPDATE remit_ceiling SET used = CASE WHEN used > ?3 THEN used - ?3 ELSE 0 END WHERE tenant = ?1 AND scope = ?2;

-- name: put_ask
-- A question for the inbox, under its first number if it is asked again.
INSERT INTO remit_ask (tenant, ask, run_key, run, call, roles, asked_at, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (tenant, ask) DO UPDATE SET run_key = ?3, run = ?4, call = ?5, roles = ?6, asked_at = ?7, until = ?8
RETURNING number;

-- name: open_ask
-- Show it to a role that may answer it, or under '' to all.
INSERT INTO remit_ask_open (number, tenant, role) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING;

-- name: close_ask
-- Show it to nobody any more.
DELETE FROM remit_ask_open WHERE number = (SELECT number FROM remit_ask WHERE tenant = ?1 AND ask = ?2);

-- name: announce
-- A row of the outbox.
INSERT INTO remit_outbox (tenant, run, kind, data, at) VALUES (?1, ?2, ?3, ?4, ?5);

-- name: insert_entry
-- Keep an entry of a unit whose row was moved.
INSERT INTO remit_entry (run_key, lane, seq, header, body, salt, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: insert_large
-- Keep a large value beside its entry. One that stands there before the entry does is nobody's.
INSERT INTO remit_large_value (run_key, lane, seq, value) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (run_key, lane, seq) DO UPDATE SET value = ?4;

-- name: set_quarantine
-- Set or clear the overlay of a run.
UPDATE remit_run SET quarantined = ?1 WHERE run_key = ?2;

-- name: insert_run
-- Make a run, unless its id is taken, in whichever generation: a row whose gen was edited must not begin afresh.
INSERT INTO remit_run ({run_new})
SELECT :tenant, :run, :gen, :flow, :by, 'queued', '', 0, :opened_at, :window_end,
  :head, 1, :head, 0, :epoch, :worker, :lease_until
WHERE NOT EXISTS (SELECT 1 FROM remit_run WHERE tenant = :tenant AND run = :run)
ON CONFLICT DO NOTHING
RETURNING run_key;

-- name: claim
-- Hold a run that nobody holds, under an epoch one higher; ?6 is a worker that is proven dead.
UPDATE remit_run SET epoch = epoch + 1, worker = ?1, lease_until = ?2
WHERE run_key = ?3 AND epoch = ?4 AND quarantined = 0
  AND status IN {open}
  AND (worker IS NULL OR lease_until <= ?5 OR worker = ?6)
RETURNING {run_row};

-- name: release
-- Give a lease back without an entry.
UPDATE remit_run SET worker = NULL, lease_until = 0 WHERE run_key = ?1 AND epoch = ?2 AND worker IS NOT NULL
RETURNING run_key;

-- name: renew
-- Prolong a lease that this worker still holds; one that ran out counts while nobody took it.
UPDATE remit_run SET lease_until = ?1 WHERE run_key = ?2 AND epoch = ?3 AND worker = ?4
RETURNING run_key, post_head;

-- name: read_row
-- The newest generation of a run.
SELECT {run_row}
FROM remit_run WHERE tenant = ?1 AND run = ?2 ORDER BY gen DESC LIMIT 1;

-- name: read_row_by_key
-- One run.
SELECT {run_row}
FROM remit_run WHERE run_key = ?1;

-- name: read_entries
-- Both lanes of a run, and whatever else stands under its key; lane main first, large values filled in.
SELECT e.lane, e.seq, e.header, e.body, e.salt,
  CASE WHEN e.value IS NULL AND e.salt IS NOT NULL
    THEN (SELECT l.value FROM remit_large_value l WHERE l.run_key = e.run_key AND l.lane = e.lane AND l.seq = e.seq)
    ELSE e.value END
FROM remit_entry e
WHERE e.run_key = ?1 ORDER BY e.lane, e.seq;

-- name: list_newest
-- Runs of a tenant, newest first.
SELECT {run_row}
FROM remit_run
WHERE {listed}
ORDER BY run_key DESC LIMIT ?5;

-- name: list_by_status
-- Runs of one status, newest first.
SELECT {run_row}
FROM remit_run
WHERE {listed}
  AND status = ?6
ORDER BY run_key DESC LIMIT ?5;

-- name: list_by_prefix
-- Runs whose id lies between a prefix and ?8, which is behind all that begin with it: no wildcards.
SELECT {run_row}
FROM remit_run
WHERE {listed}
  AND (?6 IS NULL OR status = ?6)
  AND run >= ?7 AND run < ?8
ORDER BY run_key DESC LIMIT ?5;

-- name: read_peek
-- Where lane main of a journal ends, and whether it is set aside.
SELECT seq, head, quarantined FROM remit_run WHERE run_key = ?1;

-- name: read_name
-- Whose run it is.
SELECT tenant, run FROM remit_run WHERE run_key = ?1;

-- name: read_key
-- Who holds a business key.
SELECT run_key, run, call FROM remit_business_key WHERE tenant = ?1 AND key = ?2;

-- name: read_used
-- What is used of a ceiling.
SELECT used FROM remit_ceiling WHERE tenant = ?1 AND scope = ?2;

-- name: read_ask
-- A question by its id, and the roles that it is listed under.
SELECT {ask_row},
  (SELECT json_group_array(o.role) FROM remit_ask_open o WHERE o.number = a.number AND o.tenant = a.tenant)
FROM remit_ask a WHERE a.tenant = ?1 AND a.ask = ?2;

-- name: list_asks
-- Open questions of a tenant that a role may answer, oldest first. CROSS JOIN keeps the order: the open ones first.
SELECT {ask_row}
FROM remit_ask_open o CROSS JOIN remit_ask a ON a.number = o.number AND a.tenant = o.tenant
WHERE o.tenant = ?1 AND o.role = ?2 AND o.number > ?3
ORDER BY o.number LIMIT ?4;

-- name: read_outbox
-- What was announced in a tenant after a number, in order.
SELECT number, tenant, run, kind, data, at FROM remit_outbox
WHERE tenant = ?1 AND number > ?2 ORDER BY number LIMIT ?3;

-- name: put_worker
-- Record a worker, or what it says of itself now.
INSERT INTO remit_worker (worker, host, started_at) VALUES (?1, ?2, ?3)
ON CONFLICT (worker) DO UPDATE SET host = ?2, started_at = ?3;

-- name: read_worker
-- A worker, and where to look whether it lives.
SELECT worker, host, started_at FROM remit_worker WHERE worker = ?1;

-- name: read_names
-- Which tables and indexes a file has, before anything is believed of it.
SELECT lower(name), type = 'index' FROM sqlite_schema
WHERE type IN ('table', 'view', 'index') AND name NOT LIKE 'sqlite\_%' ESCAPE '\';

-- name: read_columns
-- Which columns a table has, in their order.
SELECT name FROM pragma_table_info(?1) ORDER BY cid;

-- name: read_migrations
-- Which migrations were applied.
SELECT number FROM remit_migration ORDER BY number;

-- name: read_migrations_unprefixed
-- The same in a file from before migration 3.
SELECT number FROM migration ORDER BY number;

-- name: insert_migration
-- Note a migration that was applied.
INSERT INTO remit_migration (number, name, applied_at) VALUES (?1, ?2, ?3);

-- name: insert_ledger
-- Give a new file its origin.
INSERT INTO remit_ledger (one, origin, made_at, clock) VALUES (1, ?1, ?2, ?3) ON CONFLICT DO NOTHING;

-- name: mark_given_clock
-- For ever: this ledger was written under a clock of the caller's.
UPDATE remit_ledger SET clock = 'given' WHERE clock <> 'given';

-- name: read_ledger
-- What the file says of itself.
SELECT origin, made_at, clock FROM remit_ledger;

-- name: count_stale
-- Runs whose lease ran out and that nobody took over.
SELECT count(*) FROM remit_run WHERE worker IS NOT NULL AND quarantined = 0 AND lease_until <= ?1;

-- name: list_overlong
-- Runs whose lease lasts longer than any that is granted.
SELECT run FROM remit_run WHERE worker IS NOT NULL AND lease_until > ?1 ORDER BY run_key LIMIT 6;

-- name: count_orphans
-- Runs that have entries, or values beside them, and no row.
SELECT count(*) FROM (SELECT run_key FROM remit_entry UNION SELECT run_key FROM remit_large_value)
WHERE run_key NOT IN (SELECT run_key FROM remit_run);

-- name: count_runs
-- Runs, and those in quarantine.
SELECT count(*), coalesce(sum(quarantined), 0) FROM remit_run WHERE substr(run, 1, 6) <> 'remit:';
