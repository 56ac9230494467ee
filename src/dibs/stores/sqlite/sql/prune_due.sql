-- prune_due.sql: which of these may still be pruned?
-- Race: redriven since prune_find. Index: primary keys. Order: none.
SELECT whole.* FROM json_each(?1) AS asked CROSS JOIN dibs_whole AS whole ON whole.seq = asked.value
WHERE whole.expires <= ?2
