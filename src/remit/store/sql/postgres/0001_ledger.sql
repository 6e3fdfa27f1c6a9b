-- Runs, their entries, and who works on them. Times are microseconds UTC.
-- The hot update touches head and seq alone: no index may hold them, so that Postgres can write the new
-- version of a row beside the old one (HOT). Ids are ordered character by character, whatever the locale.

CREATE SCHEMA IF NOT EXISTS remit;

CREATE TABLE remit.ledger (
    one     int2 PRIMARY KEY CHECK (one = 1),
    origin  text NOT NULL,
    made_at int8 NOT NULL,
    clock   text NOT NULL CHECK (clock IN ('database', 'given'))
);

CREATE TABLE remit.migration (
    number     int8 PRIMARY KEY,
    name       text NOT NULL,
    applied_at int8 NOT NULL
);

-- A key of an identity is never given twice. Half of each page is left free for the next versions of its rows.
CREATE TABLE remit.run (
    run_key     int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    run         text COLLATE "C" NOT NULL,
    gen         int8 NOT NULL,
    flow        text COLLATE "C" NOT NULL,
    "by"        text COLLATE "C" NOT NULL,
    status      text COLLATE "C" NOT NULL,
    code        text COLLATE "C" NOT NULL,
    quarantined bool NOT NULL,
    opened_at   int8 NOT NULL,
    window_end  int8 NOT NULL,
    head        bytea NOT NULL,
    seq         int8 NOT NULL,
    post_head   bytea NOT NULL,
    post_seq    int8 NOT NULL,
    epoch       int8 NOT NULL,
    worker      text COLLATE "C",
    lease_until int8 NOT NULL,
    UNIQUE (tenant, run, gen)
) WITH (fillfactor = 50);

CREATE INDEX run_by_tenant ON remit.run (tenant, run_key);
CREATE INDEX run_by_status ON remit.run (tenant, status, run_key);

CREATE TABLE remit.entry (
    run_key int8 NOT NULL,
    lane    int2 NOT NULL,
    seq     int8 NOT NULL,
    header  bytea NOT NULL,
    body    bytea NOT NULL,
    salt    bytea,
    value   bytea,
    blob    bytea,
    PRIMARY KEY (run_key, lane, seq)
);

CREATE TABLE remit.blob (
    digest bytea PRIMARY KEY,
    data   bytea NOT NULL
);

CREATE TABLE remit.worker (
    worker     text COLLATE "C" PRIMARY KEY,
    host       text NOT NULL,
    lock_path  text NOT NULL,
    started_at int8 NOT NULL
);
