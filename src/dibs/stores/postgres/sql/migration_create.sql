-- migration_create.sql: remember which migrations this schema has seen.
-- Race: none, under migration_lock. Index: none. Order: none.
CREATE TABLE IF NOT EXISTS dibs_migration (version integer PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL DEFAULT now())
