-- expired.sql: claims whose lease has run out; and when the next one will. One row at least.
-- Race: extended a moment later; the reaper's write compares fence and lease end again. Index: dibs_job_leases, primary
--   keys (LATERAL: ADR 8). Order: longest ago first.
WITH moment AS MATERIALIZED (
  SELECT greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) AS now
  FROM dibs_clock
), late AS MATERIALIZED (
  SELECT job.seq FROM dibs_job AS job
  WHERE job.status = 'claimed' AND job.lease_expires <= (SELECT moment.now FROM moment)
  ORDER BY job.lease_expires LIMIT $2
)
SELECT moment.now, (
  SELECT job.lease_expires FROM dibs_job AS job
  WHERE job.status = 'claimed' AND job.lease_expires > moment.now ORDER BY job.lease_expires LIMIT 1
), whole.*
FROM moment LEFT JOIN late ON true LEFT JOIN LATERAL (
  SELECT * FROM dibs_whole AS whole WHERE whole.seq = late.seq OFFSET 0
) AS whole ON true
ORDER BY whole.lease_expires, whole.seq
