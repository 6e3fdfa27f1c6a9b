-- Everything that Remit asks of Postgres. All values are bound; all names are qualified.
-- A time parameter that is NULL means the database's own clock, read when the row is locked.

-- part: clock
-- Of the database, in microseconds UTC.
(extract(epoch FROM clock_timestamp()) * 1000000)::int8

-- part: open
-- Statuses of runs that are not over.
('queued', 'running', 'waiting', 'paused', 'in_doubt')

-- part: listed
-- Which runs a list may show; journals of Remit's own are no runs.
tenant = $1 AND ($2::text IS NULL OR flow = $2) AND ($3::bool IS NULL OR quarantined = $3) AND run_key < $4
  AND left(run, 6) <> 'remit:'

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

-- part: ends
-- The columns of Ends but the last, in their order.
run_key, tenant, run, status, quarantined, head, seq, post_head, post_seq, epoch, lease_until

-- part: appended
-- Move the ends of lane main and keep the entries of those units that won. One statement is one commit.
-- An UPSERT, because a join is planned from statistics, which a young table does not have. Rows are locked by run key.
-- The proposed row carries the unit: post_head = the old head, with that of lane post behind it where that may not have
-- moved, epoch -1 = no lease, status '' = as it is, lease_until 1 = give the lease back. It is never inserted: a run
-- that is deleted in between divides by zero, and nothing is written.
-- Arrays of numbers come as text, which a client writes faster than it encodes each element.
-- $16: journals that a unit is fenced by. They are locked before any run: rows are moved when all of them are sorted.
-- `fair`, here and below: a row that many share is never free for who wants to move it. So all of them pass a lock at
-- which they stand in line. Its first number is `remi` in ASCII, its second the journal.
WITH fair AS MATERIALIZED (
  SELECT pg_advisory_xact_lock_shared(1919249769, (key % 2147483647)::int4) FROM unnest($16::text::int8[]) AS f(key)
), authority AS MATERIALIZED (
  SELECT run_key, head FROM remit.run WHERE run_key = ANY($16::text::int8[]) AND (SELECT count(*) FROM fair) >= 0
  ORDER BY run_key FOR SHARE
), won AS (
  INSERT INTO remit.run AS r ({run_row})
  OVERRIDING SYSTEM VALUE
  SELECT u.run_key, '', '', 0, '', '', coalesce(u.status, ''), coalesce(u.code, ''), false, 0, 0,
    u.head_after, u.seq_after, u.heads_before, 0, u.epoch, NULL, coalesce(u.release, 0)
  FROM unnest($1::text::int8[], $2::bytea[], $3::bytea[], $4::text::int8[], $5::text::int8[], $6::text[], $7::text[], $8::text::int8[],
      $17::text::int8[], $18::bytea[])
    AS u(run_key, heads_before, head_after, seq_after, epoch, status, code, release, fence_key, fence_head)
  WHERE (SELECT true FROM remit.run x WHERE x.run_key = u.run_key)
    AND (u.fence_key IS NULL OR u.fence_head = (SELECT a.head FROM authority a WHERE a.run_key = u.fence_key))
  ORDER BY u.run_key
  ON CONFLICT (run_key) DO UPDATE SET head = excluded.head, seq = excluded.seq,
    status = CASE excluded.status WHEN '' THEN r.status ELSE excluded.status END,
    code = CASE excluded.status WHEN '' THEN r.code ELSE excluded.code END,
    worker = CASE excluded.lease_until WHEN 1 THEN NULL ELSE r.worker END,
    lease_until = CASE excluded.lease_until WHEN 1 THEN 0 ELSE r.lease_until END
  WHERE (excluded.post_head = r.head OR excluded.post_head = r.head || r.post_head) AND NOT r.quarantined
    AND (excluded.epoch = -1 OR (r.epoch = excluded.epoch
      AND r.lease_until > coalesce($9::int8, {clock})))
  RETURNING r.run_key, r.tenant, r.run, 1 / length(r.tenant) AS is_a_run
), kept AS (
  INSERT INTO remit.entry (run_key, lane, seq, header, body, salt, value)
  SELECT e.run_key, 0, e.seq, e.header, e.body, e.salt, e.value
  FROM unnest($10::text::int8[], $11::text::int8[], $12::bytea[], $13::bytea[], $14::bytea[], $15::bytea[])
    AS e(run_key, seq, header, body, salt, value)
  WHERE (e.run_key IN (SELECT run_key FROM won)) IS TRUE
)

-- part: numbers
-- One transaction at a time gives numbers of asks and of the outbox, and keeps the lock until it is visible: who has
-- read up to a number never finds a lower one afterwards. The last lock of all. The number is `remit#` in ASCII.
pg_advisory_xact_lock(125779952890915)

-- name: append
-- A batch of lane main.
{appended}
SELECT run_key FROM won;

-- name: append_told
-- The same, and what those that won announce. All rows of runs are locked before the lock for numbers is taken.
{appended}, numbered AS MATERIALIZED (
  SELECT {numbers} FROM (SELECT count(*) AS runs FROM won) AS w WHERE w.runs > 0
), told AS (
  INSERT INTO remit.outbox (tenant, run, kind, data, at)
  SELECT (SELECT w.tenant FROM won w WHERE w.run_key = a.run_key), (SELECT w.run FROM won w WHERE w.run_key = a.run_key),
    a.kind, a.data, coalesce($9::int8, {clock})
  FROM unnest($19::text::int8[], $20::text[], $21::bytea[]) WITH ORDINALITY AS a(run_key, kind, data, place)
  WHERE (SELECT count(*) FROM numbered) > 0 AND (a.run_key IN (SELECT run_key FROM won)) IS TRUE
  ORDER BY a.place
)
SELECT run_key FROM won;

-- name: append_one
-- The same for one unit of one entry that no journal fences.
WITH won AS (
  UPDATE remit.run SET head = $3, seq = $4,
    status = coalesce($6::text, status), code = CASE WHEN $6::text IS NULL THEN code ELSE $7::text END,
    worker = CASE WHEN $8::bool THEN NULL ELSE worker END, lease_until = CASE WHEN $8::bool THEN 0 ELSE lease_until END
  WHERE run_key = $1 AND head = $2 AND NOT quarantined AND ($14::bytea IS NULL OR post_head = $14::bytea)
    AND ($5::int8 IS NULL OR (epoch = $5::int8
      AND lease_until > coalesce($9::int8, {clock})))
  RETURNING run_key
)
INSERT INTO remit.entry (run_key, lane, seq, header, body, salt, value)
SELECT run_key, 0, $4, $10, $11, $12, $13 FROM won
RETURNING run_key;

-- name: append_post
-- Move the ends of lane post of runs that have not ended, and keep the entries of those units that won.
WITH won AS (
  INSERT INTO remit.run AS r ({run_row})
  OVERRIDING SYSTEM VALUE
  SELECT u.run_key, '', '', 0, '', '', '', '', false, 0, 0, u.head_before, 0, u.head_after, u.seq_after, 0, NULL, 0
  FROM unnest($1::text::int8[], $2::bytea[], $3::bytea[], $4::text::int8[]) AS u(run_key, head_before, head_after, seq_after)
  WHERE (SELECT true FROM remit.run x WHERE x.run_key = u.run_key)
  ORDER BY u.run_key
  ON CONFLICT (run_key) DO UPDATE SET post_head = excluded.post_head, post_seq = excluded.post_seq
  WHERE r.post_head = excluded.head AND NOT r.quarantined
    AND r.status IN {open}
  RETURNING r.run_key, 1 / length(r.tenant) AS is_a_run
), kept AS (
  INSERT INTO remit.entry (run_key, lane, seq, header, body, salt, value)
  SELECT e.run_key, 1, e.seq, e.header, e.body, e.salt, e.value
  FROM unnest($5::text::int8[], $6::text::int8[], $7::bytea[], $8::bytea[], $9::bytea[], $10::bytea[])
    AS e(run_key, seq, header, body, salt, value)
  WHERE (e.run_key IN (SELECT run_key FROM won)) IS TRUE
)
SELECT run_key FROM won;

-- name: open_runs
-- Make the runs whose ids are free, each with its first entry; place is the opening's, which the id leads back to.
-- An id is taken in whichever generation: a row whose gen was edited must not begin afresh.
-- ground is where `remit:authority` ends for whoever opens: a subquery of one row, which no plan turns into a hash of all.
WITH made AS (
  INSERT INTO remit.run ({run_new})
  SELECT o.tenant, o.run, o.gen, o.flow, o."by", 'queued', '', false, o.opened_at, o.window_end,
    o.head, 1, o.head, 0, CASE WHEN o.worker IS NULL THEN 0 ELSE 1 END, o.worker,
    CASE WHEN o.worker IS NULL THEN 0
      ELSE coalesce($11::int8, {clock}) + o.lease END
  FROM unnest($1::text[], $2::text[], $3::int8[], $4::text[], $5::text[], $6::int8[], $7::int8[], $8::bytea[],
      $9::text[], $10::int8[], $16::text::int8[], $17::text::int8[], $18::bytea[])
    AS o(tenant, run, gen, flow, "by", opened_at, window_end, head, worker, lease, ground, ground_seq, ground_head)
  WHERE NOT EXISTS (SELECT 1 FROM remit.run AS r WHERE r.tenant = o.tenant AND r.run = o.run)
    AND (o.ground IS NULL OR (SELECT g.seq = o.ground_seq AND g.head = o.ground_head AND NOT g.quarantined
      FROM remit.run AS g WHERE g.run_key = o.ground))
  ORDER BY o.tenant COLLATE "C", o.run COLLATE "C", o.gen
  ON CONFLICT (tenant, run, gen) DO NOTHING
  RETURNING run_key, head, lease_until
), kept AS (
  INSERT INTO remit.entry (run_key, lane, seq, header, body, salt, value)
  SELECT made.run_key, 0, 1, e.header, e.body, e.salt, e.value
  FROM unnest($8::bytea[], $12::bytea[], $13::bytea[], $14::bytea[], $15::bytea[])
    AS e(head, header, body, salt, value)
  JOIN made ON made.head = e.head
)
SELECT run_key, head, lease_until FROM made;

-- name: share_fences
-- Keep journals where they end until this transaction is over, and let others do the same.
WITH fair AS MATERIALIZED (
  SELECT pg_advisory_xact_lock_shared(1919249769, (key % 2147483647)::int4) FROM unnest($1::int8[]) AS f(key)
)
SELECT {ends}, 0 AS now
FROM remit.run WHERE run_key = ANY($1::int8[]) AND (SELECT count(*) FROM fair) >= 0 ORDER BY run_key FOR SHARE;

-- name: lock_runs
-- Before a transaction of several statements: all rows that it may touch, as everybody locks them: journals of
-- authority first, then by run key. The clock is read when they are locked.
WITH fair AS MATERIALIZED (
  SELECT pg_advisory_xact_lock(1919249769, (f.run_key % 2147483647)::int4) FROM (
    SELECT run_key FROM remit.run WHERE run_key = ANY($1::int8[]) AND run = 'remit:authority' ORDER BY run_key
  ) AS f
), held AS MATERIALIZED (
  SELECT {ends}
  FROM remit.run WHERE run_key = ANY($1::int8[]) AND (SELECT count(*) FROM fair) >= 0
  ORDER BY run <> 'remit:authority', run_key FOR UPDATE
)
SELECT held.*, coalesce($2::int8, {clock}) AS now FROM held;

-- name: read_ends
-- The same, and nothing is locked.
SELECT {ends},
  coalesce($2::int8, {clock}) AS now
FROM remit.run WHERE run_key = ANY($1::int8[]);

-- name: hold_keys
-- Hold the rows of business keys until the transaction is over, by key; one that nobody has is made, for run key 0.
INSERT INTO remit.business_key AS k (tenant, key, run_key, run, call)
SELECT u.tenant, u.key, 0, '', '' FROM unnest($1::text[], $2::text[]) AS u(tenant, key)
ORDER BY u.tenant COLLATE "C", u.key COLLATE "C"
ON CONFLICT (tenant, key) DO UPDATE SET run_key = k.run_key
RETURNING k.tenant, k.key, k.run_key, k.run, k.call;

-- name: set_keys
-- Who holds them from now on, run key 0 for nobody.
INSERT INTO remit.business_key (tenant, key, run_key, run, call)
SELECT * FROM unnest($1::text[], $2::text[], $3::int8[], $4::text[], $5::text[])
ON CONFLICT (tenant, key) DO UPDATE SET run_key = excluded.run_key, run = excluded.run, call = excluded.call;

-- name: drop_keys
-- Those that nobody holds. No other transaction sees a row of run key 0.
DELETE FROM remit.business_key WHERE tenant = ANY($1::text[]) AND key = ANY($2::text[]) AND run_key = 0;

-- name: hold_ceilings
-- Hold the rows of ceilings until the transaction is over, by scope; one that nobody has used is made.
INSERT INTO remit.ceiling AS c (tenant, scope, used)
SELECT u.tenant, u.scope, 0 FROM unnest($1::text[], $2::text[]) AS u(tenant, scope)
ORDER BY u.tenant COLLATE "C", u.scope COLLATE "C"
ON CONFLICT (tenant, scope) DO UPDATE SET used = c.used
RETURNING c.tenant, c.scope, c.used;

-- name: set_ceilings
-- What is used of them from now on.
INSERT INTO remit.ceiling (tenant, scope, used)
SELECT * FROM unnest($1::text[], $2::text[], $3::int8[])
ON CONFLICT (tenant, scope) DO UPDATE SET used = excluded.used;

-- name: drop_ceilings
-- Those of which nothing is used.
DELETE FROM remit.ceiling WHERE tenant = ANY($1::text[]) AND scope = ANY($2::text[]) AND used = 0;

-- name: lock_numbers
-- Before a question or an announcement is given its number.
SELECT {numbers};

-- name: open_ask
-- A question for the inbox. One that is there already is open again: better shown twice than to nobody.
WITH asked AS (
  INSERT INTO remit.ask (tenant, ask, run_key, run, call, roles, asked_at, until)
  VALUES ($1, $2, $3, $4, $5, $6::text[], $7, $8)
  ON CONFLICT (tenant, ask) DO UPDATE SET run_key = excluded.run_key, run = excluded.run, call = excluded.call,
    roles = excluded.roles, asked_at = excluded.asked_at, until = excluded.until
  RETURNING number
)
INSERT INTO remit.ask_open (number, tenant, role)
SELECT (SELECT number FROM asked), $1, o.role FROM unnest(array_append($6::text[], '')) AS o(role)
ON CONFLICT DO NOTHING;

-- name: close_asks
-- The questions need no answer any more.
DELETE FROM remit.ask_open WHERE number = ANY(ARRAY(
  SELECT (SELECT a.number FROM remit.ask a WHERE a.tenant = u.tenant AND a.ask = u.ask)
  FROM unnest($1::text[], $2::text[]) AS u(tenant, ask)
));

-- name: announce
-- Rows of the outbox, in this order.
INSERT INTO remit.outbox (tenant, run, kind, data, at)
SELECT u.tenant, u.run, u.kind, u.data, coalesce($5::int8, {clock})
FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[]) WITH ORDINALITY AS u(tenant, run, kind, data, place)
ORDER BY u.place;

-- name: insert_large
-- Keep a large value beside its entry. One that stands there before the entry does is nobody's.
INSERT INTO remit.large_value (run_key, lane, seq, value) VALUES ($1, $2, $3, $4)
ON CONFLICT (run_key, lane, seq) DO UPDATE SET value = excluded.value;

-- name: set_quarantine
-- Set or clear the overlay of a run.
UPDATE remit.run SET quarantined = $2 WHERE run_key = $1;

-- name: find_units
-- After an answer was lost: the entry that each unit ends with, if there is one in its place.
SELECT (SELECT e.header FROM remit.entry e WHERE e.run_key = u.run_key AND e.lane = u.lane AND e.seq = u.seq) AS header
FROM unnest($1::int8[], $2::int2[], $3::int8[]) WITH ORDINALITY AS u(run_key, lane, seq, place)
ORDER BY u.place;

-- name: find_opening
-- After an answer was lost: the run of this id, who holds it by now, and its first entry.
SELECT r.run_key, r.epoch, r.worker, r.lease_until, e.header
FROM remit.run r JOIN remit.entry e ON e.run_key = r.run_key AND e.lane = 0 AND e.seq = 1
WHERE r.tenant = $1 AND r.run = $2 AND r.gen = $3;

-- name: claim
-- Hold a run that nobody holds, under an epoch one higher; $5 is a worker that is proven dead.
UPDATE remit.run SET epoch = epoch + 1, worker = $2,
  lease_until = coalesce($6::int8, {clock}) + $3::int8
WHERE run_key = $1 AND epoch = $4 AND NOT quarantined
  AND status IN {open}
  AND (worker IS NULL OR worker = $5
    OR lease_until <= coalesce($6::int8, {clock}))
RETURNING {run_row};

-- name: release
-- Give a lease back without an entry.
UPDATE remit.run SET worker = NULL, lease_until = 0 WHERE run_key = $1 AND epoch = $2 AND worker IS NOT NULL
RETURNING run_key;

-- name: renew
-- Prolong the leases that worker $3 still holds; one that ran out counts while nobody took it. As in `append`, an
-- UPSERT that never inserts, locking by run key.
INSERT INTO remit.run AS r ({run_row})
OVERRIDING SYSTEM VALUE
SELECT u.run_key, '', '', 0, '', '', '', '', false, 0, 0, '', 0, '', 0, u.epoch, $3, 0
FROM unnest($1::int8[], $2::int8[]) AS u(run_key, epoch)
WHERE (SELECT true FROM remit.run x WHERE x.run_key = u.run_key)
ORDER BY u.run_key
ON CONFLICT (run_key) DO UPDATE
  SET lease_until = coalesce($5::int8, {clock}) + $4::int8
WHERE r.epoch = excluded.epoch AND r.worker = excluded.worker
RETURNING r.run_key, r.post_head, 1 / length(r.tenant) AS is_a_run;

-- name: read_row
-- The newest generation of a run.
SELECT {run_row}
FROM remit.run WHERE tenant = $1 AND run = $2 ORDER BY gen DESC LIMIT 1;

-- name: read_row_by_key
-- One run.
SELECT {run_row}
FROM remit.run WHERE run_key = $1;

-- name: read_entries
-- Both lanes of a run, and whatever else stands under its key; lane main first, large values filled in.
SELECT e.lane, e.seq, e.header, e.body, e.salt,
  CASE WHEN e.value IS NULL AND e.salt IS NOT NULL
    THEN (SELECT l.value FROM remit.large_value l WHERE l.run_key = e.run_key AND l.lane = e.lane AND l.seq = e.seq)
    ELSE e.value END AS value
FROM remit.entry e
WHERE e.run_key = $1 ORDER BY e.lane, e.seq;

-- name: list_newest
-- Runs of a tenant, newest first.
SELECT {run_row}
FROM remit.run
WHERE {listed}
ORDER BY run_key DESC LIMIT $5;

-- name: list_by_status
-- Runs of one status, newest first.
SELECT {run_row}
FROM remit.run
WHERE {listed}
  AND status = $6
ORDER BY run_key DESC LIMIT $5;

-- name: list_by_prefix
-- Runs whose id begins with $7, compared character by character; $8 lies behind all of them.
SELECT {run_row}
FROM remit.run
WHERE {listed}
  AND ($6::text IS NULL OR status = $6)
  AND run >= $7 AND run < $8 AND starts_with(run, $7)
ORDER BY run_key DESC LIMIT $5;

-- name: clean_session
-- The first of a transaction of an application's: it may write, and nothing is left of earlier ones of another's.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE, NOT DEFERRABLE;
SELECT pg_catalog.pg_advisory_unlock_all();
CLOSE ALL;
UNLISTEN *;
DISCARD TEMP;
DISCARD SEQUENCES;
RESET SESSION AUTHORIZATION;
RESET ROLE;
RESET ALL;

-- name: begin_unfinished
-- It can't be committed from here on, and lasts $1 ms at most between two statements and in each of them.
INSERT INTO remit.unfinished (migration) VALUES (0)
RETURNING number, pg_catalog.pg_current_xact_id()::text, session_user::text, pg_catalog.current_setting('role'),
  pg_catalog.set_config('statement_timeout', $1, true) IS NULL
    AND pg_catalog.set_config('idle_in_transaction_session_timeout', $1, true) IS NULL AS is_unset,
  EXISTS (SELECT FROM pg_catalog.pg_prepared_statements WHERE from_sql) AS has_prepared;

-- name: forget_prepared
-- What was prepared in this session, by whomever.
DEALLOCATE ALL;

-- name: read_transaction
-- Which transaction this is, NULL outside of one; and whether it may write.
SELECT pg_catalog.pg_current_xact_id_if_assigned()::text, pg_catalog.current_setting('transaction_read_only') = 'off';

-- name: set_locally
-- Until the transaction is over. Its commit is durable, whatever was set before; and after it nothing more is written.
SELECT pg_catalog.set_config(s.name, s.value, true), pg_catalog.set_config('synchronous_commit',
  CASE pg_catalog.current_setting('synchronous_commit') WHEN 'off' THEN 'on'
    ELSE pg_catalog.current_setting('synchronous_commit') END, true),
  pg_catalog.set_config('default_transaction_read_only', 'on', false)
FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::pg_catalog.text[])) AS s(name, value);

-- name: end_unfinished
-- The unit is written: it may be committed.
DELETE FROM remit.unfinished WHERE number = $1;

-- name: read_peeks
-- Where lane main of each of these journals ends, whether it is set aside, and the clock.
SELECT run_key, seq, head, quarantined, coalesce($2::int8, {clock})
FROM remit.run WHERE run_key = ANY($1::int8[]);

-- name: read_key
-- Who holds a business key.
SELECT run_key, run, call FROM remit.business_key WHERE tenant = $1 AND key = $2;

-- name: read_used
-- What is used of a ceiling.
SELECT used FROM remit.ceiling WHERE tenant = $1 AND scope = $2;

-- name: read_ask
-- A question by its id, and the roles that it is listed under.
SELECT {ask_row},
  ARRAY(SELECT o.role FROM remit.ask_open o WHERE o.number = a.number AND o.tenant = a.tenant) AS listed
FROM remit.ask a WHERE a.tenant = $1 AND a.ask = $2;

-- name: list_asks
-- Open questions that a role may answer, '' for all of them, oldest first. An array, because a join is planned from
-- statistics, which a young table does not have.
SELECT {ask_row}
FROM remit.ask a
WHERE (a.tenant = $1) IS TRUE AND a.number = ANY(ARRAY(
  SELECT o.number FROM remit.ask_open o
  WHERE o.tenant = $1 AND o.role = $2 AND o.number > $3
  ORDER BY o.tenant, o.role, o.number LIMIT $4))
ORDER BY a.number;

-- name: read_outbox
-- What was announced in a tenant after a number, in order.
SELECT number, tenant, run, kind, data, at FROM remit.outbox
WHERE tenant = $1 AND number > $2 ORDER BY number LIMIT $3;

-- name: put_worker
-- Record a worker, or what it says of itself now.
INSERT INTO remit.worker (worker, host, started_at) VALUES ($1, $2, $3)
ON CONFLICT (worker) DO UPDATE SET host = $2, started_at = $3;

-- name: read_worker
-- A worker, and where to look whether it lives.
SELECT worker, host, started_at FROM remit.worker WHERE worker = $1;

-- name: read_now
-- The database's clock.
SELECT {clock};

-- name: read_self
-- Which backend this connection has; a number alone may have been given to another one since.
SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid();

-- name: end_backend
-- End the backend whose answer was lost, so that nothing of it is committed after we looked. Gives no row once it is gone.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2;

-- name: read_server
-- What decides whether this server can keep a journal.
SELECT current_setting('server_version_num')::int8 AS version, current_setting('server_version') AS version_shown,
  current_setting('server_encoding') AS encoding, current_setting('synchronous_commit') AS synchronous_commit,
  current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
  current_setting('transaction_isolation') AS isolation,
  current_setting('standard_conforming_strings') AS standard_conforming_strings,
  current_setting('transaction_read_only') = 'on' AS is_read_only, pg_is_in_recovery() AS is_standby;

-- name: lock_schema
-- One process at a time makes or changes the tables. The number is `remit` in ASCII.
SELECT pg_advisory_xact_lock(491327940980);

-- name: read_tables
-- Which tables schema remit has, before anything is believed of it.
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'remit' AND c.relkind IN ('r', 'p', 'v', 'm', 'f');

-- name: read_migrations
-- Which migrations were applied.
SELECT number FROM remit.migration ORDER BY number;

-- name: insert_migration
-- Note a migration that was applied.
INSERT INTO remit.migration (number, name, applied_at) VALUES ($1, $2, $3);

-- name: insert_ledger
-- Give a new ledger its origin.
INSERT INTO remit.ledger (one, origin, made_at, clock) VALUES (1, $1, $2, $3) ON CONFLICT DO NOTHING;

-- name: mark_given_clock
-- For ever: this ledger was written under a clock of the caller's.
UPDATE remit.ledger SET clock = 'given' WHERE clock <> 'given';

-- name: read_ledger
-- What the database says of itself.
SELECT origin, clock FROM remit.ledger;

-- name: list_overlong
-- Runs whose lease lasts longer than any that is granted.
SELECT run FROM remit.run WHERE worker IS NOT NULL AND lease_until > coalesce($1::int8, {clock}) + $2::int8
ORDER BY run_key LIMIT 6;

-- name: count_orphans
-- Runs that have entries, or values beside them, and no row.
SELECT count(*) FROM (SELECT run_key FROM remit.entry UNION SELECT run_key FROM remit.large_value) AS e
WHERE NOT EXISTS (SELECT 1 FROM remit.run r WHERE r.run_key = e.run_key);

-- name: count_runs
-- Runs, and those in quarantine.
SELECT count(*) AS runs, count(*) FILTER (WHERE quarantined) AS quarantined FROM remit.run
WHERE left(run, 6) <> 'remit:';

-- name: count_stale
-- Runs whose lease ran out and that nobody took over.
SELECT count(*) FROM remit.run WHERE worker IS NOT NULL AND NOT quarantined
  AND lease_until <= coalesce($1::int8, {clock});
