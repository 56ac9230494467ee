-- examine_orphan.sql: what would have been looked after, if anyone were there to do it?
-- Race: none, a look. Index: dibs_job_agenda, lane by lane. Order: none.
SELECT
  (SELECT count(*) FROM (
    SELECT 1 FROM dibs_lane AS lane STRAIGHT_JOIN dibs_job AS job FORCE INDEX (dibs_job_agenda) ON job.lane = lane.id
    WHERE job.status = 'claimed' AND job.at < %s LIMIT 10000
  ) AS late),
  (SELECT count(*) FROM (
    SELECT 1 FROM dibs_lane AS lane STRAIGHT_JOIN dibs_job AS job FORCE INDEX (dibs_job_agenda) ON job.lane = lane.id
    WHERE job.status IN ('completed', 'failed', 'cancelled') AND job.at < %s LIMIT 10000
  ) AS old)
