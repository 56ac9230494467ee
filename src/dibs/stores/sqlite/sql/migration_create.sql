-- migration_create.sql: remember which migrations this file has seen.
-- Race: none, the caller holds the write lock. Index: none. Order: none.
CREATE TABLE IF NOT EXISTS dibs_migration (version INTEGER PRIMARY KEY, name TEXT NOT NULL, at INTEGER NOT NULL) STRICT
