-- find_pending_few.sql: are there only a few pending jobs?
-- Race: none, a snapshot. Index: dibs_job_pending, as far as the number. Order: none.
SELECT count(*) FROM (SELECT FROM dibs_job WHERE status = 'pending' LIMIT $1) AS few
