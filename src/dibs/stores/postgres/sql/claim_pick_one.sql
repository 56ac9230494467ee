-- claim_pick_one.sql: lock one job by its id, if it can be claimed.
-- Race: two claimers, one job -> SKIP LOCKED. Index: dibs_name_pkey, primary keys. (|| '' hides the status from the planner: it
--   would walk all that waits. LATERAL leaves it no choice: ADR 8.) Order: none.
WITH moment AS MATERIALIZED (
  SELECT greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) AS now
  FROM dibs_clock
)
SELECT job.seq FROM moment CROSS JOIN dibs_name AS name CROSS JOIN LATERAL (
  SELECT job.seq FROM dibs_job AS job JOIN dibs_lane AS lane ON lane.id = job.lane
  WHERE job.seq = name.job AND ($2::text[] IS NULL OR lane.queue = ANY ($2)) AND ($3::text[] IS NULL OR lane.task = ANY ($3))
    AND NOT EXISTS (
      SELECT FROM dibs_document AS pause
      WHERE pause.name = 'paused/' || lane.queue AND (pause.expires IS NULL OR pause.expires > moment.now) OFFSET 0)
    AND job.status || '' = 'pending' AND job.due <= moment.now AND job.max_attempts - job.attempts >= $4::integer
  FOR UPDATE OF job SKIP LOCKED
) AS job
WHERE name.id = $5
