-- claim_pick.sql: the first jobs of a lane, due or not. The one beyond what is wanted shows what will be due next.
-- Race: none, the caller holds the write lock. Index: dibs_job_pending, covering. Order: due, then enqueue order.
SELECT due, seq FROM dibs_job INDEXED BY dibs_job_pending WHERE status = 'pending' AND lane = ?1 ORDER BY due, seq LIMIT ?2
