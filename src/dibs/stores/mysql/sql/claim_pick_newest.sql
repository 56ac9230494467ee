-- claim_pick_newest.sql: the newest due jobs of the wanted lanes, unlocked. Costs what it skips, all that is due there.
-- Race: taken by another meanwhile; claim_lock_seq sees. Locked here, all that is sorted would be locked.
-- Index: dibs_job_agenda, lane by lane. Order: enqueue order, backwards, by sorting.
SELECT job.seq FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
WHERE job.lane IN %s AND job.status = 'pending' AND job.at <= %s AND job.max_attempts - job.attempts >= %s
ORDER BY job.seq DESC LIMIT %s
