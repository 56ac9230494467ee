-- lane_remove.sql: those of the locked lanes go that no job refers to.
-- Race: a job committed between the look and the lock: a new statement sees it. Index: as lane_lock. Order: none.
DELETE FROM dibs_lane AS lane
WHERE lane.id = ANY ($1::bigint[])
  AND NOT EXISTS (SELECT FROM dibs_job AS job WHERE job.lane = lane.id AND job.status = 'pending' OFFSET 0)
  AND NOT EXISTS (SELECT FROM dibs_job AS job WHERE job.lane = lane.id AND job.expires IS NOT NULL OFFSET 0)
  AND lane.id <> ALL (ARRAY(SELECT job.lane FROM dibs_job AS job WHERE job.status = 'claimed'))
