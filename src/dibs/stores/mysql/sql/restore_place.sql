-- restore_place.sql: where jobs are that were restored just now.
-- Race: none, in the transaction of restore. Index: dibs_job_id. Order: none.
SELECT job.id, job.seq FROM dibs_job AS job WHERE job.id IN %s
