-- insert_job.sql: a new job, with room for what its claim (64 bytes) and its end (28) will write.
-- Race: one id, one key: looked up under the write lock, and the unique indexes hold. Index: all. Order: seq is the order.
INSERT INTO dibs_job
  (seq, id, lane, status, due, attempts, max_attempts, fence, events, created, updated, lease, kept, progress_note,
   idempotency_key, unique_key, batch_id, room)
VALUES (?, ?, ?, 'pending', ?, 0, ?, 0, 1, ?6, ?6, ?, ?, '', ?, ?, ?, zeroblob(92))
