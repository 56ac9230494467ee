-- count.sql: how many jobs of a lane are in each state, each up to a number, and when the first was due.
-- Race: none, a snapshot. Index: dibs_job_agenda, as far as the number. Order: none.
SELECT
  (SELECT count(*) FROM (SELECT 1 FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
    WHERE job.lane = %s AND job.status = 'pending' AND job.at <= %s LIMIT %s) AS few),
  (SELECT count(*) FROM (SELECT 1 FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
    WHERE job.lane = %s AND job.status = 'pending' AND job.at > %s LIMIT %s) AS few),
  (SELECT count(*) FROM (SELECT 1 FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
    WHERE job.lane = %s AND job.status = 'claimed' LIMIT %s) AS few),
  (SELECT count(*) FROM (SELECT 1 FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
    WHERE job.lane = %s AND job.status = 'completed' LIMIT %s) AS few),
  (SELECT count(*) FROM (SELECT 1 FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
    WHERE job.lane = %s AND job.status = 'failed' LIMIT %s) AS few),
  (SELECT count(*) FROM (SELECT 1 FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
    WHERE job.lane = %s AND job.status = 'cancelled' LIMIT %s) AS few),
  (SELECT job.at FROM dibs_job AS job FORCE INDEX (dibs_job_agenda)
    WHERE job.lane = %s AND job.status = 'pending' AND job.at <= %s ORDER BY job.at, job.seq LIMIT 1)
