-- claim_pick_oldest.sql: the oldest due jobs of some lanes. Costs what it skips: all that is due there.
-- Race: none, the caller holds the write lock. Index: dibs_job_pending. Order: enqueue order, by sorting.
SELECT seq FROM dibs_job INDEXED BY dibs_job_pending WHERE status = 'pending' AND lane IN (SELECT value FROM json_each(?1)) AND due <= ?2
  AND max_attempts - attempts >= ?3
ORDER BY seq LIMIT ?4
