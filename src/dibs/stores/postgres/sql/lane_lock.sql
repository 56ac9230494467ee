-- lane_lock.sql: lock lanes that look unused, a few at a time.
-- Race: an enqueue into one holds FOR KEY SHARE, and is passed by; one that comes later waits, and finds the lane gone.
-- Index: primary key, dibs_job_pending, dibs_job_finished; dibs_job_leases once. (OFFSET 0 leaves the planner
--   no choice: ADR 8.) Order: none.
SELECT lane.id FROM dibs_lane AS lane
WHERE lane.id > $1
  AND NOT EXISTS (SELECT FROM dibs_job AS job WHERE job.lane = lane.id AND job.status = 'pending' OFFSET 0)
  AND NOT EXISTS (SELECT FROM dibs_job AS job WHERE job.lane = lane.id AND job.expires IS NOT NULL OFFSET 0)
  AND lane.id <> ALL (ARRAY(SELECT job.lane FROM dibs_job AS job WHERE job.status = 'claimed'))
ORDER BY lane.id LIMIT $2 FOR UPDATE OF lane SKIP LOCKED
