-- write_keys.sql: which of these unique keys do unfinished jobs have, and which jobs?
-- Race: a redrive and an enqueue with one key: the unique index holds, and whoever it stops asks again.
-- Index: dibs_job_unique_key. Order: none.
SELECT job.unique_key, job.id FROM dibs_job AS job FORCE INDEX (dibs_job_unique_key)
WHERE job.unique_key IN %s AND job.unfinished = 1
