-- claim_pick_left.sql: the first jobs of a lane with so many attempts left. Costs what it skips.
-- Race: none, the caller holds the write lock. Index: dibs_job_pending. Order: due, then enqueue order.
SELECT due, seq FROM dibs_job INDEXED BY dibs_job_pending WHERE status = 'pending' AND lane = ?1 AND max_attempts - attempts >= ?3
ORDER BY due, seq LIMIT ?2
