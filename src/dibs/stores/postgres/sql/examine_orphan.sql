-- examine_orphan.sql: what would have been looked after, if anyone were there to do it?
-- Race: none, a look. Index: dibs_job_leases, dibs_job_finished (its lanes). Order: none.
SELECT
  (SELECT count(*) FROM (
    SELECT FROM dibs_job WHERE status = 'claimed' AND lease_expires < $1::bigint - $2::bigint LIMIT 10000
  ) AS late) AS late,
  (SELECT count(*) FROM dibs_lane AS lane
    CROSS JOIN (VALUES ('completed'), ('failed'), ('cancelled')) AS ended (status)
    CROSS JOIN LATERAL (
      SELECT FROM dibs_job AS job
      WHERE job.lane = lane.id AND job.status = ended.status AND job.expires IS NOT NULL AND job.expires < $1::bigint - $3::bigint
      LIMIT 10000
    ) AS job) AS old
