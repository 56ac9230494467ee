-- log_head.sql: what a job tells of its first event.
-- Race: none, a snapshot. Index: dibs_name_pkey, primary key. Order: none.
SELECT job.seq, job.created, job.first_due FROM dibs_job AS job
WHERE job.seq = (SELECT name.job FROM dibs_name AS name WHERE name.id = $1)
