-- +goose Up
-- History in the order of writing, so that rows fill their pages however many
-- runs write at once. Without a rowid, a row of more than 2 KB took a page of
-- its own, and a run's rows were scattered by its random id.

CREATE TABLE history (
    n          INTEGER PRIMARY KEY, -- order of writing
    run        INTEGER NOT NULL REFERENCES runs (n) ON DELETE CASCADE,
    seq        INTEGER NOT NULL,
    node       TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    visit      INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    outcome    TEXT    NOT NULL,
    next       TEXT    NOT NULL,
    delta      TEXT    NOT NULL,
    guards     TEXT    NOT NULL, -- JSON; '' is none
    event_key  TEXT    NOT NULL,
    note       TEXT    NOT NULL,
    usage      TEXT    NOT NULL, -- JSON; '' is nothing
    began_at   INTEGER NOT NULL,
    took       INTEGER NOT NULL, -- microseconds
    input_hash TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX history_seq ON history (run, seq);

INSERT INTO history (run, seq, node, kind, visit, attempt, outcome, next, delta, guards, event_key, note, usage, began_at, took, input_hash)
SELECT r.n, o.seq, o.node, o.kind, o.visit, o.attempt, o.outcome, o.next, o.delta, iif(o.guards = 'null', '', o.guards),
       o.event_key, o.note, o.usage, o.began_at, o.took, o.input_hash
FROM nodes o JOIN runs r ON r.id = o.run_id ORDER BY r.n, o.seq;

DROP TABLE nodes;
