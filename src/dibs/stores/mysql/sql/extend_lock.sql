-- extend_lock.sql: lock those of these claims that are current.
-- Race: a claim that was just taken over: compared under the row's lock. A row that another transaction holds is skipped.
-- Index: dibs_job_id. Order: told by place.
SELECT given.place, job.seq FROM JSON_TABLE(%s, '$[*]' COLUMNS (
  place FOR ORDINALITY, id varchar(512) CHARACTER SET utf8mb4 PATH '$[0]', fence bigint PATH '$[1]',
  token varchar(512) CHARACTER SET utf8mb4 PATH '$[2]')) AS given
STRAIGHT_JOIN dibs_job AS job FORCE INDEX (dibs_job_id) ON job.id = given.id
WHERE job.status = 'claimed' AND job.fence = given.fence AND job.token = given.token
FOR UPDATE SKIP LOCKED
