-- log_page.sql: the events of some jobs.
-- Race: none, in the snapshot that read the jobs. Index: primary key. Order: as they happened, job by job.
SELECT job, n, event, was, became, worker_id, actor, fence, attempts, due, lease_expires, at, note
FROM dibs_event WHERE job IN %s ORDER BY job, n
