-- prune_lanes.sql: when the first completed, failed and cancelled job of each lane may go.
-- Race: none, a hint. Index: dibs_job_agenda, three seeks for each lane. Order: none.
SELECT lane.id, (
  SELECT job.at FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
  WHERE job.lane = lane.id AND job.status = 'completed' ORDER BY job.at, job.seq LIMIT 1), (
  SELECT job.at FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
  WHERE job.lane = lane.id AND job.status = 'failed' ORDER BY job.at, job.seq LIMIT 1), (
  SELECT job.at FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
  WHERE job.lane = lane.id AND job.status = 'cancelled' ORDER BY job.at, job.seq LIMIT 1)
FROM dibs_lane AS lane
