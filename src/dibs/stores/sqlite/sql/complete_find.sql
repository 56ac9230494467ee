-- complete_find.sql: where jobs are that another process claimed, or this one long ago.
-- Race: none; a place is never given away twice, and complete_take compares. Index: the job's unique id, covering.
--   Order: none.
SELECT id, seq FROM dibs_job WHERE id IN (SELECT value FROM json_each(?))
