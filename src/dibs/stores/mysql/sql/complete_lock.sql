-- complete_lock.sql: lock those of these jobs that are held under these claims, and may be ended the quick way.
-- Race: taken over, cancelled or settled meanwhile; then fence, token or status differs, and writing.py judges it like any other, as
--   it does a job that is not kept. A row that another transaction holds is skipped, so no one waits here while holding something.
-- Index: dibs_job_id. Order: told by place.
SELECT given.place, job.seq FROM JSON_TABLE(%s, '$[*]' COLUMNS (
  place FOR ORDINALITY, id varchar(512) CHARACTER SET utf8mb4 PATH '$[0]', fence bigint PATH '$[1]',
  token varchar(512) CHARACTER SET utf8mb4 PATH '$[2]')) AS given
STRAIGHT_JOIN dibs_job AS job FORCE INDEX (dibs_job_id) ON job.id = given.id
WHERE job.status = 'claimed' AND job.fence = given.fence AND job.token = given.token AND job.kept > 0
FOR UPDATE SKIP LOCKED
