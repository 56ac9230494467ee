-- migration_lock.sql: one at a time migrates a database; the second waits, and finds nothing left to do.
-- Race: two processes migrate at once. The lock is the connection's, and goes with it. Index: none. Order: none.
SELECT GET_LOCK(concat('dibs_', left(sha2(database(), 256), 40)), %s)
