-- insert_tag.sql: new jobs' tags, so that they are found by them.
-- Race: none, in the transaction of insert. Index: dibs_job_id. Order: none.
INSERT INTO dibs_tag (tag, job)
SELECT given.tag, job.seq
FROM JSON_TABLE(%s, '$[*]' COLUMNS (
  id varchar(512) CHARACTER SET utf8mb4 PATH '$[0]', tag varchar(255) CHARACTER SET utf8mb4 PATH '$[1]')) AS given
STRAIGHT_JOIN dibs_job AS job FORCE INDEX (dibs_job_id) ON job.id = given.id
