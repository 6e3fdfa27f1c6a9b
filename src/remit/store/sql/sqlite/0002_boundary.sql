-- What stands beside the runs and is written in the same commits: business keys, ceilings, questions, announcements.
-- Only open questions are indexed by tenant and by role, so a list of them costs the same however many were answered.

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
    call     TEXT NOT NULL,
    roles    TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    until    INTEGER NOT NULL,
    is_open  INTEGER NOT NULL,
    UNIQUE (tenant, ask)
) STRICT;

CREATE INDEX ask_open ON ask (tenant, number) WHERE is_open = 1;

-- Of open questions alone.
CREATE TABLE ask_role (
    tenant TEXT NOT NULL,
    role   TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (tenant, role, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX ask_role_by_number ON ask_role (number);

CREATE TABLE outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    run    TEXT NOT NULL,
    kind   TEXT NOT NULL,
    data   BLOB NOT NULL,
    at     INTEGER NOT NULL
) STRICT;
