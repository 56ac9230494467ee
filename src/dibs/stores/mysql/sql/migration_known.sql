-- migration_known.sql: has this database ever been dibs's? And which one is it?
-- Race: a migration in another process; asked again under its lock. Index: none. Order: none.
SELECT count(*), database() FROM information_schema.tables WHERE table_schema = database() AND table_name = 'dibs_migration'
