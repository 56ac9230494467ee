-- log_head.sql: what a job tells of its first event.
-- Race: none, a snapshot. Index: dibs_name_pkey, primary key. Order: none.
SELECT job.seq, job.created, job.first_due FROM dibs_name AS name JOIN dibs_job AS job ON job.seq = name.job WHERE name.id = $1
