-- peek.sql: when the first job of the wanted lanes is due, and what time it is; no job: no time.
-- Race: a hint only. Index: dibs_job_pending, one seek for each lane, from the place that it is known to be empty up to;
--   dibs_document_pkey (OFFSET 0: ADR 8). Order: none.
SELECT moment.now, (
  SELECT min(first.due) FROM dibs_lane AS lane
  LEFT JOIN unnest($5::bigint[], $6::bigint[], $7::bigint[]) AS place (lane, due, seq) ON place.lane = lane.id
  CROSS JOIN LATERAL (
    SELECT job.due FROM dibs_job AS job
    WHERE job.lane = lane.id AND job.status = 'pending'
      AND (job.due, job.seq) >= (coalesce(place.due, -1), coalesce(place.seq, -1))
      AND job.max_attempts - job.attempts >= $4::integer
    ORDER BY job.due, job.seq LIMIT 1
  ) AS first
  WHERE ($2::text[] IS NULL OR lane.queue = ANY ($2)) AND ($3::text[] IS NULL OR lane.task = ANY ($3))
    AND NOT EXISTS (
      SELECT FROM dibs_document AS pause
      WHERE pause.name = 'paused/' || lane.queue AND (pause.expires IS NULL OR pause.expires > moment.now) OFFSET 0)
)
FROM (
  SELECT greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) AS now
  FROM dibs_clock
) AS moment
