-- examine_snapshot.sql: who keeps purge from removing old versions of rows, in any database of the server, for longer than it should?
-- Race: none, a look. Index: none. Order: the oldest first.
SELECT
  CASE WHEN process.id IS NULL THEN 'a prepared transaction (XA RECOVER lists it)'
    ELSE concat('connection ', process.id, ' (', process.user, ', ', lower(process.command), ')') END,
  TIMESTAMPDIFF(MICROSECOND, trx.trx_started, now(6)),
  process.id IS NULL OR process.command = 'Sleep'
FROM information_schema.innodb_trx AS trx
LEFT JOIN information_schema.processlist AS process ON process.id = trx.trx_mysql_thread_id
WHERE trx.trx_mysql_thread_id <> connection_id() AND trx.trx_started < now(6) - INTERVAL %s SECOND
ORDER BY trx.trx_started
