-- restore_job.sql: a job as another store has it, with the room that it would have here.
-- Race: one id, one key: looked up under the write lock, and the unique indexes hold. Index: all. Order: seq is the order.
INSERT INTO dibs_job
  (seq, id, lane, status, due, attempts, max_attempts, fence, events, created, updated, lease, kept, worker_id, claimed,
   lease_expires, claim_lease, settled_as, completed, expires, progress, progress_note, idempotency_key, unique_key,
   batch_id, error, result, room)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?27, iif(?28 = 0, NULL, zeroblob(?28)))
