-- claim_pick_newest.sql: the newest due jobs of some lanes. Costs what it skips: all that is due there.
-- Race: none, the caller holds the write lock. Index: dibs_job_pending. Order: enqueue order, backwards, by sorting.
SELECT seq FROM dibs_job INDEXED BY dibs_job_pending WHERE status = 'pending' AND lane IN (SELECT value FROM json_each(?1)) AND due <= ?2
  AND max_attempts - attempts >= ?3
ORDER BY seq DESC LIMIT ?4
