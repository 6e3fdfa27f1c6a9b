-- A large value belongs to one entry of one run and goes with it. Before, those of the same bytes were one row, found by
-- a digest that stood in the entry as well: whoever kept that could try guesses at what had been taken out.
-- Locked first: what an older worker commits until then is copied, and after that it can write nothing.

LOCK TABLE remit.entry IN ACCESS EXCLUSIVE MODE;

CREATE TABLE remit.large_value (
    run_key int8 NOT NULL,
    lane    int2 NOT NULL,
    seq     int8 NOT NULL,
    value   bytea NOT NULL,
    PRIMARY KEY (run_key, lane, seq)
);

INSERT INTO remit.large_value (run_key, lane, seq, value)
SELECT e.run_key, e.lane, e.seq, b.data FROM remit.entry e JOIN remit.blob b ON b.digest = e.blob;

DROP TABLE remit.blob;
ALTER TABLE remit.entry DROP COLUMN blob;
