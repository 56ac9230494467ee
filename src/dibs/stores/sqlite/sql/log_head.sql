-- log_head.sql: what a job tells of its first event.
-- Race: none, a snapshot. Index: the job's unique id, then the payload's primary key. Order: none.
SELECT job.seq, job.created, payload.due
FROM dibs_job AS job CROSS JOIN dibs_payload AS payload ON payload.seq = job.seq WHERE job.id = ?
