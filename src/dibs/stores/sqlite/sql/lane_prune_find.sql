-- lane_prune_find.sql: the lanes that no job refers to.
-- Race: none, a snapshot; lane_prune asks again under the write lock. Index: dibs_job_pending and dibs_job_finished, a seek
--   each, and dibs_job_leases once, which is as long as there are claims. Order: none.
SELECT id FROM dibs_lane NOT INDEXED
WHERE NOT EXISTS (SELECT 1 FROM dibs_job INDEXED BY dibs_job_pending WHERE status = 'pending' AND lane = dibs_lane.id)
  AND NOT EXISTS (SELECT 1 FROM dibs_job INDEXED BY dibs_job_finished WHERE expires IS NOT NULL AND lane = dibs_lane.id)
  AND id NOT IN (SELECT lane FROM dibs_job INDEXED BY dibs_job_leases WHERE status = 'claimed')
