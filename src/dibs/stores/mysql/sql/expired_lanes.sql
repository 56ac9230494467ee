-- expired_lanes.sql: the lanes that have claims, and when the first lease of each ends.
-- Race: none, a hint. Index: dibs_job_agenda, one seek for each lane. Order: none.
SELECT lane.id, (
  SELECT job.at FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
  WHERE job.lane = lane.id AND job.status = 'claimed' ORDER BY job.at, job.seq LIMIT 1)
FROM dibs_lane AS lane
