-- log_page.sql: the events of some jobs.
-- Race: none, in the snapshot that read the jobs. Index: primary key. Order: as they happened, job by job.
SELECT job, n, event, before, after, worker_id, actor, fence, attempts, due, lease_expires, at, note
FROM json_each(?) AS asked
CROSS JOIN dibs_event AS event ON event.id >= asked.value << 24 AND event.id < asked.value + 1 << 24
ORDER BY event.id
