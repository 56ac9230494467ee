-- insert.sql: new jobs, all or none.
-- Race: one name, two enqueues: a name that another transaction has not committed yet is waited for, and the unique indexes hold.
-- Index: dibs_job_id, dibs_job_idempotency_key, dibs_job_unique_key. Order: seq is the order in which they are given.
INSERT INTO dibs_job (
  lane, id, due, first_due, created, updated, max_attempts, lease, kept, idempotency_key, unique_key, batch_id, terms, params)
VALUES %s
