-- extend_held.sql: which of these claims are current by what is committed: those that another transaction holds.
-- Race: none, a snapshot; a hint whether to ask again. Index: dibs_job_id. Order: told by place.
SELECT given.place FROM JSON_TABLE(%s, '$[*]' COLUMNS (
  place FOR ORDINALITY, id varchar(512) CHARACTER SET utf8mb4 PATH '$[0]', fence bigint PATH '$[1]',
  token varchar(512) CHARACTER SET utf8mb4 PATH '$[2]')) AS given
STRAIGHT_JOIN dibs_job AS job FORCE INDEX (dibs_job_id) ON job.id = given.id
WHERE job.status = 'claimed' AND job.fence = given.fence AND job.token = given.token
