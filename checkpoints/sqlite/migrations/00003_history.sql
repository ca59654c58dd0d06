-- +goose Up
-- History in the order of writing, so that rows fill their pages however many
-- runs write at once. Without a rowid, a row of more than 2 KB took a page of
-- its own, and a run's rows were scattered by its random id.
--
-- A run points to its last node and each node to the one before it. An index
-- over run and seq would cost every node one more page to write.
--
-- The state at the start is row 0 of its run, where it is not {}. It is never
-- written again and seldom read, so it may be compressed, and then fits where
-- a page has no room for one more node.

CREATE TABLE history (
    n          INTEGER PRIMARY KEY, -- order of writing
    prev       INTEGER NOT NULL,    -- the run's node before this one; 0 is none
    run        INTEGER NOT NULL,    -- runs.n; deleted with it by Prune
    seq        INTEGER NOT NULL,
    node       TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    visit      INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    outcome    TEXT    NOT NULL,
    next       TEXT    NOT NULL,
    delta      ANY     NOT NULL,    -- in row 0 the state, a BLOB when deflated
    guards     TEXT    NOT NULL,    -- JSON; '' is none
    event_key  TEXT    NOT NULL,
    note       TEXT    NOT NULL,
    usage      TEXT    NOT NULL,    -- JSON; '' is nothing
    began_at   INTEGER NOT NULL,
    took       INTEGER NOT NULL,    -- microseconds
    input_hash TEXT    NOT NULL
) STRICT;

ALTER TABLE runs ADD COLUMN first INTEGER NOT NULL DEFAULT 0; -- history.n of row 0; 0 is {}, -1 not recorded
ALTER TABLE runs ADD COLUMN last  INTEGER NOT NULL DEFAULT 0; -- history.n; 0 is none

INSERT INTO history (n, prev, run, seq, node, kind, visit, attempt, outcome, next, delta, guards, event_key, note, usage, began_at, took, input_hash)
SELECT n, lag(n, 1, 0) OVER (PARTITION BY run ORDER BY seq), run, seq, node, kind, visit, attempt, outcome, next, delta,
       iif(guards = 'null', '', guards), event_key, note, usage, began_at, took, input_hash
FROM (SELECT row_number() OVER (ORDER BY r.n, o.seq) AS n, r.n AS run, o.* FROM nodes o JOIN runs r ON r.id = o.run_id);

UPDATE runs SET last = coalesce((SELECT max(h.n) FROM history h WHERE h.run = runs.n), 0) WHERE seq > 0;

UPDATE runs SET first = -1 WHERE seq > 0;

INSERT INTO history (prev, run, seq, node, kind, visit, attempt, outcome, next, delta, guards, event_key, note, usage, began_at, took, input_hash)
SELECT 0, n, 0, '', '', 0, 0, '', '', state, '', '', '', '', 0, 0, '' FROM runs WHERE seq = 0 AND state <> '{}';

UPDATE runs SET first = h.n, last = h.n FROM history h WHERE h.run = runs.n AND h.seq = 0;

DROP TABLE nodes;
