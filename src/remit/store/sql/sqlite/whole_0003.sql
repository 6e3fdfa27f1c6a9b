-- What 0001 to 0003 make, at once: a new database never has a table without the prefix, which an application beside
-- may have of its own. Frozen as they are; what comes later is a migration for both.

-- Runs, their entries, and who works on them. Times are microseconds UTC.
-- The hot update touches head and seq alone: no index may hold a column of its SET list.

CREATE TABLE remit_ledger (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    origin  TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    clock   TEXT NOT NULL CHECK (clock IN ('database', 'given'))
) STRICT;

CREATE TABLE remit_migration (
    number     INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

-- AUTOINCREMENT: a key is never given twice, not even after the newest run was deleted.
CREATE TABLE remit_run (
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

CREATE INDEX remit_run_by_tenant ON remit_run (tenant, run_key);
CREATE INDEX remit_run_by_status ON remit_run (tenant, status, run_key);

-- A rowid table, so that a batch of many runs writes at one end instead of into a page per run.
CREATE TABLE remit_entry (
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

CREATE TABLE remit_blob (
    digest BLOB NOT NULL PRIMARY KEY,
    data   BLOB NOT NULL
) STRICT;

CREATE TABLE remit_worker (
    worker     TEXT NOT NULL PRIMARY KEY,
    host       TEXT NOT NULL,
    lock_path  TEXT NOT NULL,
    started_at INTEGER NOT NULL
) STRICT;

-- What stands beside the runs and is written in the same commits: business keys, ceilings, questions, announcements.
-- A list of open questions costs the same however many were answered: those stand in no index but their id's.

-- `run` is kept beside its key: a business key is still known when the run is gone.
CREATE TABLE remit_business_key (
    tenant  TEXT NOT NULL,
    key     TEXT NOT NULL,
    run_key INTEGER NOT NULL,
    run     TEXT NOT NULL,
    call    TEXT NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT;

CREATE TABLE remit_ceiling (
    tenant TEXT NOT NULL,
    scope  TEXT NOT NULL,
    used   INTEGER NOT NULL CHECK (used >= 0),
    PRIMARY KEY (tenant, scope)
) STRICT;

-- AUTOINCREMENT, here and below: a number that somebody has seen is never given again.
CREATE TABLE remit_ask (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant   TEXT NOT NULL,
    ask      TEXT NOT NULL,
    run_key  INTEGER NOT NULL,
    run      TEXT NOT NULL,
    call     TEXT NOT NULL,
    roles    TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    until    INTEGER NOT NULL,
    UNIQUE (tenant, ask)
) STRICT;

-- A question is open while it is listed here: once under each role that may answer, and once under '', for all.
CREATE TABLE remit_ask_open (
    number INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    role   TEXT NOT NULL,
    PRIMARY KEY (tenant, role, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX remit_ask_open_by_number ON remit_ask_open (number);

CREATE TABLE remit_outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    run    TEXT NOT NULL,
    kind   TEXT NOT NULL,
    data   BLOB NOT NULL,
    at     INTEGER NOT NULL
) STRICT;
