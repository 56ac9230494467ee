-- prune_find.sql: lock finished jobs of a lane whose time is over.
-- Race: redriven a moment ago: compared again under the row's lock; one that is held is skipped. Index: dibs_job_agenda.
-- Order: longest ago first, as the index has it.
SELECT job.seq, job.id, job.status, job.events, job.fence, job.attempts, job.due, job.updated, job.terms
FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
WHERE job.lane = %s AND job.status = %s AND job.at <= %s ORDER BY job.at, job.seq LIMIT %s FOR UPDATE SKIP LOCKED
