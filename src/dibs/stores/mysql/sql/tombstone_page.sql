-- tombstone_page.sql: what is left of pruned jobs whose id was not used again, a page at a time.
-- Race: none, a snapshot. Index: primary key. Order: id.
SELECT gone.id, gone.n, gone.was, gone.actor, gone.fence, gone.attempts, gone.due, gone.at, gone.note
FROM dibs_tombstone AS gone FORCE INDEX (PRIMARY)
WHERE gone.id > %s AND NOT EXISTS (SELECT 1 FROM dibs_job AS job FORCE INDEX (dibs_job_id) WHERE job.id = gone.id)
ORDER BY gone.id LIMIT %s
