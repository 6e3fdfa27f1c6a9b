-- What stands beside the runs and is written in the same commits: business keys, ceilings, questions, announcements.
-- A list of open questions costs the same however many were answered: those stand in no index but their id's.

-- `run` is kept beside its key: a business key is still known when the run is gone.
CREATE TABLE business_key (
    tenant  TEXT NOT NULL,
    key     TEXT NOT NULL,
    run_key INTEGER NOT NULL,
    run     TEXT NOT NULL,
    call    TEXT NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT;

CREATE TABLE ceiling (
    tenant TEXT NOT NULL,
    scope  TEXT NOT NULL,
    used   INTEGER NOT NULL CHECK (used >= 0),
    PRIMARY KEY (tenant, scope)
) STRICT;

-- AUTOINCREMENT, here and below: a number that somebody has seen is never given again.
CREATE TABLE ask (
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
CREATE TABLE ask_open (
    number INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    role   TEXT NOT NULL,
    PRIMARY KEY (tenant, role, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX ask_open_by_number ON ask_open (number);

CREATE TABLE outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    run    TEXT NOT NULL,
    kind   TEXT NOT NULL,
    data   BLOB NOT NULL,
    at     INTEGER NOT NULL
) STRICT;
