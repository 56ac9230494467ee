-- log_page.sql: the events of some jobs.
-- Race: none, in the snapshot that read the jobs. Index: primary key. Order: as they happened, job by job.
SELECT job, n, event, before, after, worker_id, actor, fence, attempts, due, lease_expires, at, note
FROM dibs_event WHERE job = ANY ($1::bigint[]) ORDER BY job, n
