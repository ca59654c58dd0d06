-- +goose Up
-- Times are microseconds since 1970 UTC; 0 stands for none. Names of
-- repositories and scopes are kept twice where they are compared: as given,
-- and folded to lower case.

PRAGMA application_id = 1885500466; -- "pbt2"

-- A frozen flow, stored once however many runs use it; id is its sha256.
CREATE TABLE definitions (
    n       INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,
    content BLOB NOT NULL
) STRICT;

CREATE TABLE runs (
    n               INTEGER PRIMARY KEY, -- order of creation
    id              TEXT    NOT NULL UNIQUE,
    key             TEXT    NOT NULL,
    trigger_key     TEXT    NOT NULL,
    lineage         TEXT    NOT NULL,
    repo            TEXT    NOT NULL,
    repo_folded     TEXT    NOT NULL,
    issue           INTEGER NOT NULL,
    phase           TEXT    NOT NULL,
    flow            TEXT    NOT NULL,
    round           INTEGER NOT NULL,
    status          TEXT    NOT NULL,
    epoch           INTEGER NOT NULL,
    owner           TEXT    NOT NULL DEFAULT '',
    lease_until     INTEGER NOT NULL DEFAULT 0,
    starts          INTEGER NOT NULL DEFAULT 0,
    seq             INTEGER NOT NULL DEFAULT 0,
    node            TEXT    NOT NULL DEFAULT '',
    next            TEXT    NOT NULL,
    state           TEXT    NOT NULL,
    visits          TEXT    NOT NULL DEFAULT '{}',
    wait            TEXT    NOT NULL DEFAULT '', -- JSON of the whole wait
    wait_event      TEXT    NOT NULL DEFAULT '',
    wait_until      INTEGER NOT NULL DEFAULT 0,
    ended           INTEGER NOT NULL DEFAULT 0,  -- the flow is over
    definition_id   TEXT    NOT NULL REFERENCES definitions (id),
    definition_hash TEXT    NOT NULL,
    actions         TEXT    NOT NULL,
    result          TEXT    NOT NULL DEFAULT '',
    code            TEXT    NOT NULL DEFAULT '',
    reason          TEXT    NOT NULL DEFAULT '',
    token_at        INTEGER NOT NULL,            -- when the last token was written
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX runs_open_key ON runs (key) WHERE status NOT IN ('done', 'failed', 'cancelled');
CREATE INDEX runs_final ON runs (updated_at) WHERE status IN ('done', 'failed', 'cancelled');
CREATE INDEX runs_leased ON runs (lease_until) WHERE owner <> '';
CREATE INDEX runs_waiting ON runs (wait_until) WHERE status = 'waiting';
CREATE INDEX runs_claimable ON runs (token_at) WHERE status IN ('ready', 'ending');
CREATE INDEX runs_newest ON runs (created_at, n);
CREATE INDEX runs_issue ON runs (repo_folded, issue);
CREATE INDEX runs_lineage ON runs (lineage);
CREATE INDEX runs_definition ON runs (definition_id);

-- Kept when runs are pruned: a trigger is used for ever.
CREATE TABLE triggers (
    trigger_key TEXT PRIMARY KEY,
    run_id      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE nodes (
    run_id    TEXT    NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq       INTEGER NOT NULL,
    node      TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    visit     INTEGER NOT NULL,
    attempt   INTEGER NOT NULL,
    outcome   TEXT    NOT NULL,
    next      TEXT    NOT NULL,
    delta     TEXT    NOT NULL,
    guards    TEXT    NOT NULL,
    event_key TEXT    NOT NULL,
    note      TEXT    NOT NULL,
    usage     TEXT    NOT NULL,
    began_at  INTEGER NOT NULL,
    took      INTEGER NOT NULL, -- microseconds
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    n        INTEGER PRIMARY KEY, -- order of delivery
    run_id   TEXT    NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    key      TEXT    NOT NULL,
    kind     TEXT    NOT NULL,
    data     TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    consumed INTEGER NOT NULL DEFAULT 0,
    UNIQUE (run_id, key)
) STRICT;

CREATE INDEX events_pending ON events (run_id, kind, n) WHERE consumed = 0;

-- One row a reservation, replaced by what was used. Kept when runs are
-- pruned, so that no limit is refilled; hence no foreign key.
CREATE TABLE ledger (
    id            TEXT    PRIMARY KEY,
    run_id        TEXT    NOT NULL,
    node          TEXT    NOT NULL,
    repo_folded   TEXT    NOT NULL,
    issue         INTEGER NOT NULL,
    at            INTEGER NOT NULL,
    settled       INTEGER NOT NULL DEFAULT 0,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    tool_calls    INTEGER NOT NULL,
    model_calls   INTEGER NOT NULL,
    micro_usd     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX ledger_run ON ledger (run_id);
CREATE INDEX ledger_issue ON ledger (repo_folded, issue);
CREATE INDEX ledger_day ON ledger (at);

CREATE TABLE effects (
    key   TEXT    PRIMARY KEY,
    value TEXT    NOT NULL,
    at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE stops (
    folded  TEXT    PRIMARY KEY,
    scope   TEXT    NOT NULL,
    set_by  TEXT    NOT NULL,
    reason  TEXT    NOT NULL,
    at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE inbox (
    n           INTEGER PRIMARY KEY, -- order of arrival
    id          TEXT    NOT NULL UNIQUE,
    delivery    TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    body        TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    decision    TEXT    NOT NULL DEFAULT '',
    explanation TEXT    NOT NULL DEFAULT '',
    token_at    INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX inbox_delivery ON inbox (delivery) WHERE delivery <> '';
CREATE UNIQUE INDEX inbox_key ON inbox (key) WHERE key <> '';
CREATE INDEX inbox_pending ON inbox (token_at) WHERE decision = '';

CREATE TABLE cursors (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
