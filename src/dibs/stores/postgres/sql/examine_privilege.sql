-- examine_privilege.sql: what is it that this user may not do to dibs's tables and to its clock?
-- Race: none. Index: none. Order: none.
SELECT relation.relname::text AS name, asked.privilege
FROM pg_class AS relation
CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS asked (privilege)
WHERE relation.relnamespace = current_schema()::regnamespace AND relation.relname LIKE 'dibs\_%'
  AND CASE
    WHEN relation.relkind = 'r' AND relation.relname = 'dibs_migration' THEN asked.privilege = 'SELECT'
      AND NOT has_table_privilege(relation.oid, asked.privilege)
    WHEN relation.relkind = 'r' THEN NOT has_table_privilege(relation.oid, asked.privilege)
    WHEN relation.relkind = 'v' THEN asked.privilege = 'SELECT' AND NOT has_table_privilege(relation.oid, asked.privilege)
    WHEN relation.relkind = 'S' AND relation.relname = 'dibs_clock' THEN asked.privilege IN ('SELECT', 'UPDATE')
      AND NOT has_sequence_privilege(relation.oid, asked.privilege)
    ELSE false
  END
ORDER BY relation.relname, asked.privilege
