-- write_elsewhere.sql: what the jobs were, by what is committed, that another transaction holds.
-- Race: one that goes meanwhile is missing. Index: dibs_job_id. Order: none.
SELECT job.id, job.status
FROM JSON_TABLE(%s, '$[*]' COLUMNS (id varchar(512) CHARACTER SET utf8mb4 PATH '$')) AS given
STRAIGHT_JOIN dibs_job AS job FORCE INDEX (dibs_job_id) ON job.id = given.id
