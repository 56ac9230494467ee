-- insert_later.sql: when new jobs have come, told once their unique keys are theirs.
-- Race: a job with the key that came and ended since the time was told first: its end is later than that, and no later than this.
-- Index: dibs_job_id. Order: none.
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (
  id varchar(512) CHARACTER SET utf8mb4 PATH '$[0]', due bigint PATH '$[1]')) AS given
STRAIGHT_JOIN dibs_job AS job FORCE INDEX (dibs_job_id) ON job.id = given.id
SET job.created = %s, job.updated = %s, job.due = given.due, job.first_due = given.due
