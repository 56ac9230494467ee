-- insert_job.sql: a new job.
-- Race: one id, one key: looked up under the write lock, and the unique indexes hold. Index: all. Order: seq is the order.
INSERT INTO dibs_job
  (seq, id, lane, status, due, attempts, max_attempts, fence, events, created, updated, lease, progress_note,
   idempotency_key, unique_key, batch_id)
VALUES (?, ?, ?, 'pending', ?, 0, ?, 0, 1, ?6, ?6, ?, '', ?, ?, ?)
