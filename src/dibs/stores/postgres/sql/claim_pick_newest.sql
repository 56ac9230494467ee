-- claim_pick_newest.sql: lock the newest due jobs of the wanted lanes. Costs what it skips, all that is due there.
-- Race: two claimers, one job -> SKIP LOCKED. Index: dibs_job_pending, lane by lane; dibs_document_pkey
--   (OFFSET 0: ADR 8). Order: enqueue order, backwards, by sorting: + 0 keeps the planner from walking all jobs in that order.
WITH moment AS MATERIALIZED (
  SELECT greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) AS now
  FROM dibs_clock
)
SELECT job.seq FROM dibs_job AS job
WHERE job.status = 'pending' AND job.due <= (SELECT moment.now FROM moment)
  AND job.max_attempts - job.attempts >= $4::integer AND job.lane = ANY (ARRAY(
    SELECT lane.id FROM moment CROSS JOIN dibs_lane AS lane
    WHERE ($2::text[] IS NULL OR lane.queue = ANY ($2)) AND ($3::text[] IS NULL OR lane.task = ANY ($3))
      AND NOT EXISTS (
        SELECT FROM dibs_document AS pause
        WHERE pause.name = 'paused/' || lane.queue AND (pause.expires IS NULL OR pause.expires > moment.now) OFFSET 0)))
ORDER BY job.seq + 0 DESC LIMIT $5::integer FOR UPDATE SKIP LOCKED
