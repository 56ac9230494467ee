-- examine_history.sql: how many transactions have left old versions of rows behind that purge has not removed?
-- Race: none, a look. Index: none. Order: none.
SELECT metric.`count` FROM information_schema.innodb_metrics AS metric WHERE metric.name = 'trx_rseg_history_len'
