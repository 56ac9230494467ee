-- migration_lock.sql: one at a time migrates a schema; the second waits, and finds nothing left to do.
-- Race: two processes migrate at once. Index: none. Order: none.
SELECT pg_advisory_xact_lock(hashtextextended('dibs_migration/' || current_schema(), 0))
