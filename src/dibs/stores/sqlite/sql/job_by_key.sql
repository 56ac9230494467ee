-- job_by_key.sql: the whole job that has an idempotency key.
-- Race: two enqueues, one key: both hold the write lock in turn. Index: dibs_job_idempotency_key. Order: none.
SELECT * FROM dibs_whole WHERE idempotency_key = ?
