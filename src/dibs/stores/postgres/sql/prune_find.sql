-- prune_find.sql: lock finished jobs whose time is over, lane by lane, so that it is one seek for each kind of end.
-- Race: redriven a moment ago: compared again under the row's lock; one that is held is skipped. Index: dibs_job_finished.
-- Order: none.
SELECT job.seq, job.id, job.status, job.events, job.fence, job.attempts, job.due, job.updated, job.terms
FROM dibs_lane AS lane
CROSS JOIN (VALUES ('completed'), ('failed'), ('cancelled')) AS ended (status)
CROSS JOIN LATERAL (
  SELECT * FROM dibs_job AS job
  WHERE job.lane = lane.id AND job.status = ended.status AND job.expires IS NOT NULL AND job.expires <= $1
  LIMIT $2 FOR UPDATE SKIP LOCKED
) AS job
LIMIT $2
