-- log_page.sql: the events of some jobs, those that the jobs tell themselves among them.
-- Race: none, in the snapshot that read the jobs. Index: primary keys. Order: as they happened, job by job.
SELECT job, n, event, before, after, worker_id, actor, fence, attempts, due, lease_expires, at, note
FROM dibs_event WHERE job = ANY ($1::bigint[])
UNION ALL
SELECT job, n, event, before, after, worker_id, actor, fence, attempts, due, lease_expires, at, note
FROM dibs_untold WHERE job = ANY ($1::bigint[])
ORDER BY job, n
