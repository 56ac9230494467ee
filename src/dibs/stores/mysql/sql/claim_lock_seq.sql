-- claim_lock_seq.sql: lock jobs that were picked, if they can still be claimed.
-- Race: two claimers, one job -> SKIP LOCKED. Index: primary key. Order: the store's, which remembers it.
SELECT job.seq FROM JSON_TABLE(%s, '$[*]' COLUMNS (seq bigint PATH '$')) AS given
STRAIGHT_JOIN dibs_job AS job FORCE INDEX (PRIMARY) ON job.seq = given.seq
WHERE job.status = 'pending' AND job.due <= %s AND job.max_attempts - job.attempts >= %s
FOR UPDATE SKIP LOCKED
