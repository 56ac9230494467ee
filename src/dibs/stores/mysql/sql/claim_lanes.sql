-- claim_lanes.sql: the time, the wanted lanes, and when the first pending job of each is or was due. Not of those whose empty part is
--   known: claim_first looks there.
-- Race: none, a hint; claim_lock compares again. Index: dibs_job_agenda, one seek for each lane; dibs_document's primary key.
-- Order: none.
SELECT moment.now, lane.id, lane.priority, CASE WHEN lane.id IN %s THEN NULL ELSE (
    SELECT job.at FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
    WHERE job.lane = lane.id AND job.status = 'pending' AND job.max_attempts - job.attempts >= %s
    ORDER BY job.at, job.seq LIMIT 1) END
FROM (
  SELECT greatest(coalesce(%s, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))), max(clock.at)) AS now
  FROM dibs_clock AS clock
) AS moment CROSS JOIN dibs_lane AS lane
WHERE (%s OR lane.queue IN %s) AND (%s OR lane.task IN %s)
  AND NOT EXISTS (
    SELECT 1 FROM dibs_document AS pause
    WHERE pause.name = concat(_binary'paused/', lane.queue) AND (pause.expires IS NULL OR pause.expires > moment.now))
