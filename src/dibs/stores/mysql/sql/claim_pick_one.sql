-- claim_pick_one.sql: one job by its id, if it can be claimed.
-- Race: taken by another meanwhile; claim_lock_seq sees. Index: dibs_job_id. Order: none.
SELECT job.seq
FROM (
  SELECT greatest(coalesce(%s, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))), max(clock.at)) AS now
  FROM dibs_clock AS clock
) AS moment STRAIGHT_JOIN dibs_job AS job FORCE INDEX (dibs_job_id)
STRAIGHT_JOIN dibs_lane AS lane FORCE INDEX (PRIMARY) ON lane.id = job.lane
WHERE job.id = %s AND (%s OR lane.queue IN %s) AND (%s OR lane.task IN %s)
  AND NOT EXISTS (
    SELECT 1 FROM dibs_document AS pause
    WHERE pause.name = concat(_binary'paused/', lane.queue) AND (pause.expires IS NULL OR pause.expires > moment.now))
