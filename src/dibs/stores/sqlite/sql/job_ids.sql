-- job_ids.sql: is any of these ids taken? Seldom, so the jobs themselves are read only then.
-- Race: two enqueues, one id: both hold the write lock in turn. Index: the job's unique id, covering. Order: none.
SELECT 1 FROM dibs_job WHERE id IN (SELECT value FROM json_each(?)) LIMIT 1
