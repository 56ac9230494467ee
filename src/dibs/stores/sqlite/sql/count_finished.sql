-- count_finished.sql: how many jobs of a lane have ended in a way, up to a number.
-- Race: none, a snapshot. Index: dibs_job_finished, covering, as far as the number. Order: none.
SELECT count(*) FROM (
  SELECT 1 FROM dibs_job INDEXED BY dibs_job_finished
  WHERE expires IS NOT NULL AND lane = ?1 AND status = ?2 LIMIT ?3
)
