-- write_lock.sql: lock jobs that are to be judged, and read all of them but their params and the names of their lanes.
-- Race: a stale holder; judged by the domain on the row as it is under this lock: a locking read shows what is there now, and not
--   what a snapshot saw. Skipping keeps those who hold one row from waiting for another's. Index: dibs_job_id. Order: none.
SELECT job.seq, job.lane, job.id, NULL, NULL, _binary'', 0, job.status, job.due, job.attempts, job.max_attempts, job.fence,
  job.created, job.updated, job.terms, job.worker_id, job.claimed, job.lease_expires, job.claim_lease, job.token,
  job.settled_as, job.idempotency_key, job.unique_key, job.batch_id, job.result, job.error, job.progress,
  job.progress_note, job.completed, job.events, job.expires, job.first_due
FROM JSON_TABLE(%s, '$[*]' COLUMNS (id varchar(512) CHARACTER SET utf8mb4 PATH '$')) AS given
STRAIGHT_JOIN dibs_job AS job FORCE INDEX (dibs_job_id) ON job.id = given.id
FOR UPDATE SKIP LOCKED
