-- migration_unlock.sql: let the next one migrate.
-- Race: none. Index: none. Order: none.
SELECT RELEASE_LOCK(concat('dibs_', left(sha2(database(), 256), 40)))
