-- migration_known.sql: has this schema ever been dibs's? And how is it called?
-- Race: a migration in another process; asked again under its lock. Index: none. Order: none.
SELECT to_regclass('dibs_migration') IS NOT NULL, current_schema()
