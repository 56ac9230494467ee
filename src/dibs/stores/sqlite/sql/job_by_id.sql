-- job_by_id.sql: whole jobs by id.
-- Race: read in the transaction that uses them. Index: the job's unique id. Order: none promised.
SELECT whole.* FROM json_each(?) AS asked CROSS JOIN dibs_whole AS whole ON whole.id = asked.value
