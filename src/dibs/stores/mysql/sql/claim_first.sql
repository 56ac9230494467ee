-- claim_first.sql: when the first pending job of a lane is due, from the place that it is known to be empty up to.
-- Race: none, a hint. Index: dibs_job_agenda. Order: due time, enqueue order, as the index has it.
SELECT job.lane, job.at FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
WHERE job.lane = %s AND job.status = 'pending' AND ((job.at = %s AND job.seq >= %s) OR job.at > %s)
  AND job.max_attempts - job.attempts >= %s
ORDER BY job.at, job.seq LIMIT 1
