-- complete.sql: end well those of these jobs that are held under these claims.
-- Race: taken over, cancelled or settled meanwhile; then fence, token or status differs, the row is left as it is, and
--   writing.py judges it like any other, as it does a job that is not kept. A row that another transaction holds is
--   skipped, so no one waits here while holding something. One that changes between our snapshot and its lock is not found by
--   ctid, and judged (test_what_changes_before_its_lock_is_left_alone).
-- Index: dibs_name_pkey, primary key, then ctid. (|| '' hides the status from the planner: it would walk all claims. LATERAL
--   and ctid leave it no choice: ADR 8.) Order: none.
-- Log: the row itself tells of its claim and of its end (untold), until something else happens to it.
WITH moment AS MATERIALIZED (
  SELECT greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) AS now
  FROM dibs_clock
), held AS MATERIALIZED (
  SELECT job.ctid, asked.result
  FROM unnest($2::text[], $3::bigint[], $4::text[], $5::bytea[]) AS asked (id, fence, token, result)
  CROSS JOIN LATERAL (
    SELECT name.job FROM dibs_name AS name WHERE name.id = asked.id OFFSET 0
  ) AS name CROSS JOIN LATERAL (
    SELECT job.ctid FROM dibs_job AS job
    WHERE job.seq = name.job
      AND job.status || '' = 'claimed' AND job.fence = asked.fence AND job.token = asked.token AND job.kept > 0
    FOR UPDATE SKIP LOCKED
  ) AS job
), ended AS (
  UPDATE dibs_job AS job SET
    status = 'completed', attempts = job.attempts + 1, events = job.events + 1, settled_as = 'completed', error = NULL,
    result = held.result, updated = greatest(moment.now, job.updated), completed = greatest(moment.now, job.updated),
    expires = greatest(moment.now, job.updated) + job.kept, untold = 2
  FROM moment, held WHERE job.ctid = held.ctid AND job.status || '' = 'claimed'
  RETURNING job.id
), kept AS MATERIALIZED (
  SELECT setval('dibs_clock', greatest(moment.now, (SELECT last_value FROM dibs_clock))) AS at
  FROM moment WHERE EXISTS (SELECT FROM ended)
)
SELECT ended.id, kept.at FROM ended LEFT JOIN kept ON true
