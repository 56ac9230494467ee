-- find_pending_few.sql: are there only a few pending jobs?
-- Race: none, a snapshot. Index: dibs_job_pending, as far as the number. Order: none.
SELECT count(*) FROM (SELECT 1 FROM dibs_job INDEXED BY dibs_job_pending WHERE status = 'pending' LIMIT ?)
