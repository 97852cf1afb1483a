-- The first form of the data folder's database.
--
-- Times: "*_at" and other moments are microseconds on the boot clock named by
-- the row's stamp (boot, at, wall); "wall" columns are microseconds since 1970.
-- The largest integer stands for "never". Ids are 16 bytes.

CREATE TABLE meta (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    origin      TEXT    NOT NULL,
    sync_marker INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE boot (
    n       INTEGER PRIMARY KEY,
    boot_id TEXT    NOT NULL
) STRICT;

-- The log itself: the leaf's bytes and the content they vouch for. The other
-- columns are how records are found; they can be made again from the contents,
-- and structural records (the first one, clock anomalies) have none of them.
CREATE TABLE audit_leaf (
    seq     INTEGER PRIMARY KEY,
    leaf    BLOB NOT NULL,
    content BLOB,
    wall    INTEGER,
    event   TEXT,
    account TEXT,
    action  BLOB,
    agent   TEXT,
    task    TEXT,
    status  INTEGER
) STRICT;
CREATE INDEX journal_wall   ON audit_leaf (wall)        WHERE wall IS NOT NULL;
CREATE INDEX journal_action ON audit_leaf (action, seq) WHERE action IS NOT NULL;
CREATE INDEX journal_agent  ON audit_leaf (agent, seq)  WHERE agent IS NOT NULL;
CREATE INDEX journal_task   ON audit_leaf (task, seq)   WHERE task IS NOT NULL;

-- These catch mistakes of ours, not attackers; the chain is for those.
CREATE TRIGGER audit_leaf_keeps_its_bytes
BEFORE UPDATE OF seq, leaf ON audit_leaf
BEGIN
    SELECT RAISE(ABORT, 'a leaf is never changed');
END;
CREATE TRIGGER audit_leaf_stays
BEFORE DELETE ON audit_leaf
BEGIN
    SELECT RAISE(ABORT, 'a leaf is never removed');
END;

CREATE TABLE action (
    id             BLOB    PRIMARY KEY,
    requested      BLOB    NOT NULL,
    account        TEXT    NOT NULL,
    agent          TEXT    NOT NULL,
    task           TEXT,
    key            TEXT,
    requested_at   INTEGER NOT NULL,
    requested_wall INTEGER NOT NULL,
    state          TEXT    NOT NULL,
    open           INTEGER NOT NULL,
    version        INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    lookups        INTEGER NOT NULL,
    waited         INTEGER NOT NULL,
    not_before     INTEGER NOT NULL,
    last_sent_at   INTEGER,
    key_safe_until INTEGER,
    uncertain      INTEGER NOT NULL,
    maybe_arrived  INTEGER NOT NULL,
    operation_id   TEXT,
    last_status    INTEGER,
    escalation     BLOB,
    cancelled      INTEGER NOT NULL,
    code           TEXT    NOT NULL,
    boot           INTEGER NOT NULL,
    at             INTEGER NOT NULL,
    wall           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX action_open  ON action (account) WHERE open = 1;
CREATE INDEX action_key   ON action (key, account, id) WHERE key IS NOT NULL;
CREATE INDEX action_state ON action (state, id);
CREATE INDEX action_done  ON action (wall) WHERE open = 0;

CREATE TABLE attempt (
    action      BLOB    NOT NULL,
    kind        TEXT    NOT NULL,
    n           INTEGER NOT NULL,
    account     TEXT    NOT NULL,
    opened_at   INTEGER NOT NULL,
    opened_wall INTEGER NOT NULL,
    scopes      TEXT    NOT NULL,
    requests    INTEGER NOT NULL,
    sent_at     INTEGER,
    certainty   TEXT,
    outcome     TEXT,
    status      INTEGER,
    boot        INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    wall        INTEGER NOT NULL,
    PRIMARY KEY (action, kind, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempt_lately ON attempt (account, opened_wall);
CREATE INDEX attempt_open   ON attempt (account) WHERE certainty IS NULL;

CREATE TABLE escalation (
    id         BLOB    PRIMARY KEY,
    account    TEXT,
    action     BLOB,
    scope      TEXT    NOT NULL,
    trigger    TEXT    NOT NULL,
    choices    TEXT    NOT NULL,
    why        TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    opened_at  INTEGER NOT NULL,
    expires    INTEGER NOT NULL,
    chosen     TEXT,
    decided_by TEXT,
    decided_at INTEGER,
    note       TEXT,
    boot       INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    wall       INTEGER NOT NULL
) STRICT;
CREATE INDEX escalation_open   ON escalation (account) WHERE chosen IS NULL;
CREATE INDEX escalation_action ON escalation (action) WHERE action IS NOT NULL;

CREATE TABLE scope (
    account         TEXT    NOT NULL,
    scope           TEXT    NOT NULL,
    mode            TEXT    NOT NULL,
    next_allowed_at INTEGER,
    remaining       INTEGER,
    "limit"         INTEGER,
    "window"        INTEGER,
    reset_at        INTEGER,
    spacing         INTEGER,
    max_concurrent  INTEGER,
    epoch           INTEGER NOT NULL,
    hold_level      INTEGER NOT NULL,
    misdeclared     INTEGER NOT NULL,
    source          TEXT    NOT NULL,
    boot            INTEGER NOT NULL,
    at              INTEGER NOT NULL,
    wall            INTEGER NOT NULL,
    PRIMARY KEY (account, scope)
) STRICT, WITHOUT ROWID;

CREATE TABLE task (
    agent     TEXT    NOT NULL,
    task      TEXT    NOT NULL,
    goal      TEXT,
    opened_at INTEGER NOT NULL,
    deadline  INTEGER NOT NULL,
    retries   INTEGER NOT NULL,
    waited    INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    boot      INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    wall      INTEGER NOT NULL,
    PRIMARY KEY (agent, task)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_wall ON task (wall);

-- Sealed under the work key; `key` says under which.
CREATE TABLE payload (
    action BLOB PRIMARY KEY,
    key    BLOB NOT NULL,
    sealed BLOB NOT NULL,
    wall   INTEGER NOT NULL
) STRICT;

CREATE TABLE result (
    action BLOB    PRIMARY KEY,
    key    BLOB    NOT NULL,
    status INTEGER NOT NULL,
    sealed BLOB    NOT NULL,
    wall   INTEGER NOT NULL
) STRICT;
CREATE INDEX result_wall ON result (wall);
