-- The first schema. A released step is never edited: a change is a new step.

-- `epoch` (16 random bytes), `hw` (highest time seen, ms), `policy_epoch`, `schema_version`, and
-- `turns`: how many groups were committed, so that a failed COMMIT can be told from a lost answer.
CREATE TABLE meta (
    k TEXT PRIMARY KEY,
    v ANY NOT NULL
) STRICT, WITHOUT ROWID;

-- One row a record. `key` is its timer member, `ops` the last eight operation ids, oldest first.
-- The rows have ids so that runs of the same age share pages: a group then writes few of them.
CREATE TABLE record (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    next_deadline INTEGER,
    expires_ms INTEGER,
    ops BLOB NOT NULL,
    bytes BLOB NOT NULL
) STRICT;
CREATE INDEX record_due ON record (next_deadline) WHERE next_deadline IS NOT NULL;
CREATE INDEX record_expiry ON record (expires_ms) WHERE expires_ms IS NOT NULL;

CREATE TABLE idx (
    name TEXT NOT NULL,
    member TEXT NOT NULL,
    score INTEGER NOT NULL,
    PRIMARY KEY (name, member)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_order ON idx (name, score, member);

-- How long each list is: counting a million entries takes a tenth of a second, or ten from a disk.
CREATE TABLE idx_size (
    name TEXT PRIMARY KEY,
    entries INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TRIGGER idx_added AFTER INSERT ON idx BEGIN
    INSERT INTO idx_size (name, entries) VALUES (new.name, 1)
    ON CONFLICT (name) DO UPDATE SET entries = entries + 1;
END;
CREATE TRIGGER idx_removed AFTER DELETE ON idx BEGIN
    UPDATE idx_size SET entries = entries - 1 WHERE name = old.name;
END;

-- A licence lives while its row is here and now < expires_ms. Deleting the row denies.
CREATE TABLE licence (
    approval TEXT PRIMARY KEY,
    expires_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX licence_expiry ON licence (expires_ms);

-- AUTOINCREMENT: a place in the feed is never given out twice, whatever is trimmed.
CREATE TABLE feed (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    json TEXT NOT NULL
) STRICT;

CREATE TABLE blob (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    expires_ms INTEGER NOT NULL,
    bytes BLOB NOT NULL
) STRICT;
CREATE INDEX blob_expiry ON blob (expires_ms);
