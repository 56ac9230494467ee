-- migration_record.sql: one step was taken.
-- Race: none, under migration_lock. Index: primary key. Order: none.
INSERT INTO dibs_migration (version, name) VALUES %s
