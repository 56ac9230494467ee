-- log_head.sql: what a job tells of its first event.
-- Race: none, a snapshot. Index: dibs_job_id. Order: none.
SELECT seq, created, first_due FROM dibs_job WHERE id = %s
