-- claim_lock.sql: lock the first due jobs of one lane.
-- Race: two claimers, one job -> SKIP LOCKED. InnoDB locks what it scans: the index is walked in its own order, without sorting, and
--   no further than the limit, so no more is locked than is taken (test_a_claim_locks_no_more_than_it_takes).
-- Index: dibs_job_agenda. Order: due time, enqueue order, as the index has it.
SELECT job.lane, job.at, job.seq FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
WHERE job.lane = %s AND job.status = 'pending' AND ((job.at = %s AND job.seq >= %s) OR job.at > %s) AND job.at <= %s
  AND job.max_attempts - job.attempts >= %s
ORDER BY job.at, job.seq LIMIT %s FOR UPDATE SKIP LOCKED
