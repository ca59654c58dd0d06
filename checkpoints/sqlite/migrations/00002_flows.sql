-- +goose Up
-- Children, forks, concurrency keys, branches of fanouts, versions of flows
-- and what operators did.

ALTER TABLE runs ADD COLUMN parent      TEXT    NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN parent_node TEXT    NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN close       TEXT    NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN counted     INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN forked      TEXT    NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN forked_at   TEXT    NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN mode        TEXT    NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN concurrency TEXT    NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN on_conflict TEXT    NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN replaces    TEXT    NOT NULL DEFAULT '';

-- When the run became final; 0 while it is open. Indexes look at it and not at
-- the status, which would cost every node of every run a list of three words.
ALTER TABLE runs ADD COLUMN final_at INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET final_at = updated_at WHERE status IN ('done', 'failed', 'cancelled');
DROP INDEX runs_final;
CREATE INDEX runs_final ON runs (final_at, n) WHERE final_at > 0;

-- Open runs of one concurrency key may share a key, so it is no longer unique:
-- Start looks, in its transaction.
DROP INDEX runs_open_key;
CREATE INDEX runs_open_key ON runs (key, n) WHERE final_at = 0;
CREATE INDEX runs_concurrency ON runs (concurrency, n) WHERE final_at = 0 AND concurrency <> '';
CREATE INDEX runs_parent ON runs (parent, key) WHERE parent <> '';

ALTER TABLE nodes ADD COLUMN input_hash TEXT NOT NULL DEFAULT '';

CREATE TABLE branches (
    n        INTEGER PRIMARY KEY, -- order of storing
    run      INTEGER NOT NULL REFERENCES runs (n) ON DELETE CASCADE,
    fanout   TEXT    NOT NULL,
    visit    INTEGER NOT NULL,
    branch   TEXT    NOT NULL,
    outcome  TEXT    NOT NULL,
    delta    TEXT    NOT NULL,
    note     TEXT    NOT NULL,
    attempt  INTEGER NOT NULL,
    usage    TEXT    NOT NULL, -- '' is nothing
    began_at INTEGER NOT NULL,
    took     INTEGER NOT NULL, -- microseconds
    UNIQUE (run, fanout, visit, branch)
) STRICT;

-- Kept when runs are pruned: every definition that a flow was run with.
CREATE TABLE flow_versions (
    flow          TEXT    NOT NULL,
    hash          TEXT    NOT NULL,
    n             INTEGER NOT NULL, -- counts from 1 in a flow
    definition_id TEXT    NOT NULL REFERENCES definitions (id),
    first_at      INTEGER NOT NULL,
    PRIMARY KEY (flow, hash)
) STRICT, WITHOUT ROWID;

CREATE INDEX flow_versions_definition ON flow_versions (definition_id);

INSERT INTO flow_versions (flow, hash, n, definition_id, first_at)
SELECT flow, definition_hash, row_number() OVER (PARTITION BY flow ORDER BY min(n)), definition_id, min(created_at)
FROM runs WHERE definition_hash <> '' GROUP BY flow, definition_hash;

CREATE TABLE audits (
    n      INTEGER PRIMARY KEY, -- order of writing
    run    INTEGER NOT NULL REFERENCES runs (n) ON DELETE CASCADE,
    by     TEXT    NOT NULL,
    what   TEXT    NOT NULL,
    why    TEXT    NOT NULL,
    at     INTEGER NOT NULL
) STRICT;

CREATE INDEX audits_run ON audits (run);

ALTER TABLE inbox ADD COLUMN decided_at INTEGER NOT NULL DEFAULT 0;
UPDATE inbox SET decided_at = at WHERE decision <> '';
CREATE INDEX inbox_decided ON inbox (decided_at) WHERE decision <> '';
