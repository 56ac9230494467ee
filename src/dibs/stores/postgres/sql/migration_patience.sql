-- migration_patience.sql: for the rest of this transaction, wait so long for any one lock.
-- Race: a table that someone's open transaction has used; see migrate.py. Index: none. Order: none.
SELECT set_config('lock_timeout', $1, true)
