-- What stands beside the runs and is written in the same commits: business keys, ceilings, questions, announcements.
-- Keys are held and amounts are changed in place: half of each page is left free for the next versions of its rows.

-- `run` is kept beside its key, here and below: a business key is still known when the run is gone.
CREATE TABLE remit.business_key (
    tenant  text COLLATE "C" NOT NULL,
    key     text COLLATE "C" NOT NULL,
    run_key int8 NOT NULL,
    run     text COLLATE "C" NOT NULL,
    call    text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, key)
) WITH (fillfactor = 50);

CREATE TABLE remit.ceiling (
    tenant text COLLATE "C" NOT NULL,
    scope  text COLLATE "C" NOT NULL,
    used   int8 NOT NULL CHECK (used >= 0),
    PRIMARY KEY (tenant, scope)
) WITH (fillfactor = 50);

CREATE TABLE remit.ask (
    number   int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant   text COLLATE "C" NOT NULL,
    ask      text COLLATE "C" NOT NULL,
    run_key  int8 NOT NULL,
    run      text COLLATE "C" NOT NULL,
    call     text COLLATE "C" NOT NULL,
    roles    text[] NOT NULL,
    asked_at int8 NOT NULL,
    until    int8 NOT NULL,
    UNIQUE (tenant, ask)
);

-- A question is open while it is listed here: once under each role that may answer, and once under '', for all.
-- So a list of open ones costs the same however many were answered, and their own rows are never rewritten.
CREATE TABLE remit.ask_open (
    number int8 NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    role   text COLLATE "C" NOT NULL,
    PRIMARY KEY (number, role)
);

CREATE INDEX ask_open_by_role ON remit.ask_open (tenant, role, number);

CREATE TABLE remit.outbox (
    number int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    run    text COLLATE "C" NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    data   bytea NOT NULL,
    at     int8 NOT NULL
);

-- A row that may never be committed: it refers to nothing, which Postgres finds out at the end of the transaction.
-- While an application's rows are written with a unit such a row stands here, so that nobody commits them before it.
CREATE TABLE remit.unfinished (
    number    int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    migration int8 NOT NULL REFERENCES remit.migration (number) DEFERRABLE INITIALLY DEFERRED
);
