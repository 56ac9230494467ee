-- lane_prune.sql: lanes that no job refers to go; the next job of their kind gets a new one.
-- Race: an enqueue into one: both hold the write lock in turn, and an enqueue always looks its lane up. Index: primary key,
--   then as lane_prune_find. Order: none.
DELETE FROM dibs_lane WHERE id IN (SELECT value FROM json_each(?))
  AND NOT EXISTS (SELECT 1 FROM dibs_job INDEXED BY dibs_job_pending WHERE status = 'pending' AND lane = dibs_lane.id)
  AND NOT EXISTS (SELECT 1 FROM dibs_job INDEXED BY dibs_job_finished WHERE expires IS NOT NULL AND lane = dibs_lane.id)
  AND id NOT IN (SELECT lane FROM dibs_job INDEXED BY dibs_job_leases WHERE status = 'claimed')
