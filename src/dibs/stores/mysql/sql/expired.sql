-- expired.sql: claims of a lane whose lease has run out.
-- Race: extended a moment later; the reaper's write compares fence and lease end again. Index: dibs_job_agenda.
-- Order: longest ago first, as the index has it.
SELECT job.at, job.seq FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
WHERE job.lane = %s AND job.status = 'claimed' AND job.at <= %s ORDER BY job.at, job.seq LIMIT %s
