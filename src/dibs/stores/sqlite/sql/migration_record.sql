-- migration_record.sql: one step was taken.
-- Race: none, the caller holds the write lock. Index: primary key. Order: none.
INSERT INTO dibs_migration (version, name, at) VALUES (?, ?, ?)
