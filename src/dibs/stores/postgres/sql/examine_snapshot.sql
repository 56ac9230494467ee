-- examine_snapshot.sql: what keeps vacuum from removing dead rows for longer than it should?
-- Race: none, a look. Index: none. Order: the oldest first.
SELECT 'pid ' || pid || ' (' || coalesce(nullif(application_name, ''), usename, '?') || ', ' || coalesce(state, '?') || ')' AS who,
       extract(epoch FROM clock_timestamp() - xact_start)::float8 AS age, coalesce(state, '') LIKE 'idle in transaction%' AS idle
FROM pg_stat_activity
WHERE datname = current_database() AND xact_start < clock_timestamp() - make_interval(secs => $1::float8)
  AND pid <> pg_backend_pid() AND backend_type = 'client backend'
UNION ALL
SELECT 'prepared transaction ' || quote_literal(gid), extract(epoch FROM clock_timestamp() - prepared)::float8, true
FROM pg_prepared_xacts
WHERE database = current_database() AND prepared < clock_timestamp() - make_interval(secs => $1::float8)
UNION ALL
SELECT 'replication slot ' || quote_literal(slot_name), 0.0, true
FROM pg_replication_slots WHERE NOT active AND (xmin IS NOT NULL OR restart_lsn IS NOT NULL)
ORDER BY age DESC
