-- Fewer pages for each commit. How records are found is kept by blocks of 256 of them
-- instead of by record (see blocks.rs); what is open is found by one index of it.

CREATE TABLE journal_block (
    n        INTEGER PRIMARY KEY,
    least    INTEGER,
    greatest INTEGER
) STRICT;

CREATE TABLE journal_mention (
    what  TEXT    NOT NULL,
    name  ANY     NOT NULL,
    block INTEGER NOT NULL,
    PRIMARY KEY (what, name, block)
) STRICT, WITHOUT ROWID;

-- Blocks that are full are summed up, each part from the index that has it. What is
-- behind them the writer sums up when it comes to it.
INSERT INTO journal_block
    SELECT seq / 256, min(wall), max(wall) FROM audit_leaf INDEXED BY journal_wall
    WHERE wall IS NOT NULL
        AND seq < (SELECT (max(seq) + 1) / 256 * 256 FROM audit_leaf)
    GROUP BY seq / 256;
INSERT INTO journal_mention
    SELECT DISTINCT 'action', action, seq / 256 FROM audit_leaf INDEXED BY journal_action
    WHERE action IS NOT NULL AND seq < (SELECT (max(n) + 1) * 256 FROM journal_block);
INSERT INTO journal_mention
    SELECT DISTINCT 'agent', agent, seq / 256 FROM audit_leaf INDEXED BY journal_agent
    WHERE agent IS NOT NULL AND seq < (SELECT (max(n) + 1) * 256 FROM journal_block);
INSERT INTO journal_mention
    SELECT DISTINCT 'task', task, seq / 256 FROM audit_leaf INDEXED BY journal_task
    WHERE task IS NOT NULL AND seq < (SELECT (max(n) + 1) * 256 FROM journal_block);

DROP INDEX journal_wall;
DROP INDEX journal_action;
DROP INDEX journal_agent;
DROP INDEX journal_task;

-- Most actions succeed, and whoever asks for those finds them by age. The sweep goes
-- by age, too: ids begin with the time. Sends that are open are those of open actions.
DROP INDEX action_state;
DROP INDEX action_done;
DROP INDEX attempt_open;
CREATE INDEX action_ended ON action (state, id) WHERE open = 0 AND state <> 'succeeded';
