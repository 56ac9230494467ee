-- restore.sql: jobs as another store has them, all or none.
-- Race: one name, two who bring it: a name that another transaction has not committed yet is waited for, and the unique indexes
--   hold; whoever they stop looks again. Index: dibs_job_id, dibs_job_idempotency_key, dibs_job_unique_key. Order: seq is the
--   order in which they are given.
INSERT INTO dibs_job (
  lane, id, status, due, first_due, attempts, max_attempts, fence, events, created, updated, lease, kept, worker_id, claimed,
  lease_expires, claim_lease, settled_as, completed, expires, progress, progress_note, idempotency_key, unique_key, batch_id, terms,
  params, error, result)
VALUES %s
