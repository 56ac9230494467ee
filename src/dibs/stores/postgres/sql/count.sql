-- count.sql: how many jobs of each lane are in each state, each up to a number, and when the first was due.
-- Race: none, a snapshot. Index: dibs_job_pending and dibs_job_finished, as far as the number; dibs_job_leases once, which is
--   as long as there are claims. (SELECT 'failed') is no constant, or the planner might walk dibs_job_failed. Order: none.
WITH moment AS MATERIALIZED (
  SELECT greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) AS now
  FROM dibs_clock
), held AS MATERIALIZED (
  SELECT job.lane, count(*) AS number FROM dibs_job AS job WHERE job.status = 'claimed' GROUP BY job.lane
)
SELECT lane.queue,
  (SELECT count(*) FROM (SELECT FROM dibs_job AS job
    WHERE job.lane = lane.id AND job.status = 'pending' AND job.due <= moment.now LIMIT $3::bigint) AS few),
  (SELECT count(*) FROM (SELECT FROM dibs_job AS job
    WHERE job.lane = lane.id AND job.status = 'pending' AND job.due > moment.now LIMIT $3::bigint) AS few),
  coalesce((SELECT held.number FROM held WHERE held.lane = lane.id), 0),
  (SELECT count(*) FROM (SELECT FROM dibs_job AS job
    WHERE job.lane = lane.id AND job.status = 'completed' AND job.expires IS NOT NULL LIMIT $3::bigint) AS few),
  (SELECT count(*) FROM (SELECT FROM dibs_job AS job
    WHERE job.lane = lane.id AND job.status = (SELECT 'failed') AND job.expires IS NOT NULL LIMIT $3::bigint) AS few),
  (SELECT count(*) FROM (SELECT FROM dibs_job AS job
    WHERE job.lane = lane.id AND job.status = 'cancelled' AND job.expires IS NOT NULL LIMIT $3::bigint) AS few),
  (SELECT job.due FROM dibs_job AS job
    WHERE job.lane = lane.id AND job.status = 'pending' AND job.due <= moment.now ORDER BY job.due, job.seq LIMIT 1)
FROM moment CROSS JOIN dibs_lane AS lane WHERE $2::text IS NULL OR lane.queue = $2
