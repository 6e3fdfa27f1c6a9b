-- Runs, their entries, and who works on them. Times are microseconds UTC.
-- The hot update touches head and seq alone: no index may hold a column of its SET list.

CREATE TABLE ledger (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    origin  TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    clock   TEXT NOT NULL CHECK (clock IN ('database', 'given'))
) STRICT;

CREATE TABLE migration (
    number     INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

-- AUTOINCREMENT: a key is never given twice, not even after the newest run was deleted.
CREATE TABLE run (
    run_key     INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant      TEXT NOT NULL,
    run         TEXT NOT NULL,
    gen         INTEGER NOT NULL,
    flow        TEXT NOT NULL,
    "by"        TEXT NOT NULL,
    status      TEXT NOT NULL,
    code        TEXT NOT NULL,
    quarantined INTEGER NOT NULL,
    opened_at   INTEGER NOT NULL,
    window_end  INTEGER NOT NULL,
    head        BLOB NOT NULL,
    seq         INTEGER NOT NULL,
    post_head   BLOB NOT NULL,
    post_seq    INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    worker      TEXT,
    lease_until INTEGER NOT NULL,
    UNIQUE (tenant, run, gen)
) STRICT;

CREATE INDEX run_by_tenant ON run (tenant, run_key);
CREATE INDEX run_by_status ON run (tenant, status, run_key);

-- A rowid table, so that a batch of many runs writes at one end instead of into a page per run.
CREATE TABLE entry (
    run_key INTEGER NOT NULL,
    lane    INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    header  BLOB NOT NULL,
    body    BLOB NOT NULL,
    salt    BLOB,
    value   BLOB,
    blob    BLOB,
    UNIQUE (run_key, lane, seq)
) STRICT;

CREATE TABLE blob (
    digest BLOB NOT NULL PRIMARY KEY,
    data   BLOB NOT NULL
) STRICT;

CREATE TABLE worker (
    worker     TEXT NOT NULL PRIMARY KEY,
    host       TEXT NOT NULL,
    lock_path  TEXT NOT NULL,
    started_at INTEGER NOT NULL
) STRICT;
