-- lane_used.sql: which of the locked lanes does a job refer to after all?
-- Race: a job committed between the look and the lock: a new statement sees it. Index: dibs_job_agenda. Order: none.
SELECT given.id
FROM JSON_TABLE(%s, '$[*]' COLUMNS (id bigint PATH '$')) AS given
WHERE EXISTS (SELECT 1 FROM dibs_job AS job FORCE INDEX (dibs_job_agenda) WHERE job.lane = given.id)
