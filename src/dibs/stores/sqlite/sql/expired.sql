-- expired.sql: claims whose lease has run out.
-- Race: extended a moment later; the reaper's write compares fence and lease end again. Index: dibs_job_leases.
-- Order: longest ago first.
SELECT whole.* FROM (
  SELECT seq FROM dibs_job INDEXED BY dibs_job_leases
  WHERE status = 'claimed' AND lease_expires <= ?1 ORDER BY lease_expires LIMIT ?2
) AS late CROSS JOIN dibs_whole AS whole ON whole.seq = late.seq
