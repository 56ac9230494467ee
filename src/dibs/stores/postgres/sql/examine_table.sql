-- examine_table.sql: is dibs's busiest table vacuumed, and are all its indexes whole?
-- Race: none, a look. Index: none. Order: none.
SELECT coalesce(table_.reloptions::text, '') LIKE '%autovacuum_enabled=%false%' OR coalesce(table_.reloptions::text, '') LIKE '%autovacuum_enabled=off%' AS unvacuumed,
       coalesce(used.n_dead_tup, 0) AS dead, coalesce(used.n_live_tup, 0) AS live,
       ARRAY(
         SELECT name.relname::text FROM pg_index AS index JOIN pg_class AS name ON name.oid = index.indexrelid
         WHERE index.indrelid = table_.oid AND NOT index.indisvalid
       ) AS broken
FROM pg_class AS table_ LEFT JOIN pg_stat_user_tables AS used ON used.relid = table_.oid
WHERE table_.oid = 'dibs_job'::regclass
