-- claim_candidates.sql: the first due jobs of one lane, unlocked: several lanes are merged in order before any is locked.
-- Race: taken by another meanwhile; claim_lock sees. Index: dibs_job_agenda. Order: due time, enqueue order, as the index has it.
SELECT job.lane, job.at, job.seq FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
WHERE job.lane = %s AND job.status = 'pending' AND ((job.at = %s AND job.seq >= %s) OR job.at > %s) AND job.at <= %s
  AND job.max_attempts - job.attempts >= %s
ORDER BY job.at, job.seq LIMIT %s
