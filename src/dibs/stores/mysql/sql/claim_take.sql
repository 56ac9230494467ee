-- claim_take.sql: lease the jobs that this transaction has just locked.
-- Race: none, the rows are locked. A row that changed a moment ago may be newer than our time, and is never put before it: the
--   server sets columns from left to right, and updated comes last. Index: primary key. Order: none.
UPDATE dibs_job SET
  status = 'claimed', fence = fence + 1, events = events + 1, worker_id = %s, token = %s, settled_as = NULL,
  claimed = greatest(%s, updated), claim_lease = coalesce(%s, lease),
  lease_expires = greatest(%s, updated) + coalesce(%s, lease), updated = greatest(%s, updated)
WHERE seq IN %s
