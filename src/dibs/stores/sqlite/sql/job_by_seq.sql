-- job_by_seq.sql: whole jobs by their place in the enqueue order.
-- Race: read in the transaction that uses them. Index: primary keys. Order: none promised.
SELECT whole.* FROM json_each(?) AS asked CROSS JOIN dibs_whole AS whole ON whole.seq = asked.value
