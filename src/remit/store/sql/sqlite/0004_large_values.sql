-- A large value belongs to one entry of one run and goes with it. Before, those of the same bytes were one row, found by
-- a digest that stood in the entry as well: whoever kept that could try guesses at what had been taken out.

CREATE TABLE remit_large_value (
    run_key INTEGER NOT NULL,
    lane    INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    value   BLOB NOT NULL,
    PRIMARY KEY (run_key, lane, seq)
) STRICT;

INSERT INTO remit_large_value (run_key, lane, seq, value)
SELECT e.run_key, e.lane, e.seq, b.data FROM remit_entry e JOIN remit_blob b ON b.digest = e.blob;

DROP TABLE remit_blob;
ALTER TABLE remit_entry DROP COLUMN blob;
