-- claim_take.sql: lease the picked jobs.
-- Race: two claimers, one job. There is one writer at a time, and the status is compared all the same
--   (test_several_processes_share_one_file). Index: primary key. Order: none; the claim keeps its own.
UPDATE dibs_job NOT INDEXED SET
  status = 'claimed', fence = fence + 1, events = events + 1, worker_id = ?2, token = ?3, claimed = ?4, updated = ?4,
  claim_lease = coalesce(?5, lease), lease_expires = ?4 + coalesce(?5, lease), settled_as = NULL,
  room = zeroblob(28)
WHERE seq IN (SELECT value FROM json_each(?1)) AND status = 'pending'
