-- lane_prune.sql: a lane that no job refers to goes; the next of its kind gets a new one.
-- Race: an enqueue into it: both hold the write lock in turn, and an enqueue always looks its lane up. Index: primary key,
--   dibs_job_pending, dibs_job_finished, and all of dibs_job_leases, which is as long as there are claims. Order: none.
DELETE FROM dibs_lane WHERE id = ?1
  AND NOT EXISTS (SELECT 1 FROM dibs_job INDEXED BY dibs_job_pending WHERE status = 'pending' AND lane = ?1)
  AND NOT EXISTS (SELECT 1 FROM dibs_job INDEXED BY dibs_job_finished WHERE expires IS NOT NULL AND lane = ?1)
  AND NOT EXISTS (SELECT 1 FROM dibs_job INDEXED BY dibs_job_leases WHERE status = 'claimed' AND lane = ?1)
