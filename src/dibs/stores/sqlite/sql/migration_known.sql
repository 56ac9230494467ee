-- migration_known.sql: has this file ever been dibs's?
-- Race: a migration in another process; asked again under the write lock. Index: none, the catalogue is small. Order: none.
SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'dibs_migration'
