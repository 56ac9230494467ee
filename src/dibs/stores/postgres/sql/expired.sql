-- expired.sql: claims whose lease has run out.
-- Race: extended a moment later; the reaper's write compares fence and lease end again. Index: dibs_job_leases.
-- Order: longest ago first.
WITH moment AS MATERIALIZED (
  SELECT greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) AS now
  FROM dibs_clock
), late AS MATERIALIZED (
  SELECT job.seq FROM dibs_job AS job
  WHERE job.status = 'claimed' AND job.lease_expires <= (SELECT moment.now FROM moment) ORDER BY job.lease_expires LIMIT $2
)
SELECT whole.* FROM late JOIN dibs_whole AS whole ON whole.seq = late.seq ORDER BY whole.lease_expires, whole.seq
