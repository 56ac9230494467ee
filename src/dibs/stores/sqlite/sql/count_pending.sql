-- count_pending.sql: how many jobs of a lane are due and how many are not yet, each up to a number.
-- Race: none, a snapshot. Index: dibs_job_pending, covering, as far as the number. Order: none.
SELECT
  (SELECT count(*) FROM (SELECT 1 FROM dibs_job INDEXED BY dibs_job_pending WHERE status = 'pending' AND lane = ?1 AND due <= ?2 LIMIT ?3)),
  (SELECT count(*) FROM (SELECT 1 FROM dibs_job INDEXED BY dibs_job_pending WHERE status = 'pending' AND lane = ?1 AND due > ?2 LIMIT ?3)),
  (SELECT due FROM dibs_job INDEXED BY dibs_job_pending WHERE status = 'pending' AND lane = ?1 AND due <= ?2 ORDER BY due LIMIT 1)
