-- claim.sql: lease the first due jobs of the wanted lanes, to one or several requests that want the same.
-- Race: two claimers, one job -> FOR UPDATE SKIP LOCKED. Candidates are found without a lock, and each lane then locks
--   exactly its share of them: no more is locked than is leased, and what another claimer holds is passed by. Who got less
--   than there seemed to be asks again, with more candidates ($14) than wanted.
--   MATERIALIZED: run twice, the subquery would lease more than it returns (test_claim_leases_what_it_returns).
--   A row that changed a moment ago may be newer than our time, and is never put before it. One that changes between our
--   snapshot and its lock is not found by ctid: who got less asks again (test_what_changes_before_its_lock_is_left_alone).
-- Index: dibs_job_pending from the place that a lane is known to be empty up to, dibs_lane_name, then ctid, which leaves the
--   planner no other index to walk, as OFFSET 0 does (ADR 8).
--   (|| '' hides the status from the planner: it would walk all that waits to find the few that are locked.)
--   Where as many lanes are busy as jobs are wanted, none is walked beyond the first job of the last of them.
-- One who finds nothing is told, if it wants to know ($15), when the first lease runs out (dibs_job_leases), and need not
--   ask for that as well.
-- Log: the row itself tells of its claim (untold), until something else happens to it.
-- Order: priority (times $4), due time, enqueue order, told by rank; the rows themselves come in any order.
WITH moment AS MATERIALIZED (
  SELECT greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) AS now
  FROM dibs_clock
), lane AS MATERIALIZED (
  SELECT lane.id, lane.queue, lane.task, lane.priority, lane.priority * $4::integer AS level,
    coalesce(place.due, -1) AS due, coalesce(place.seq, -1) AS seq
  FROM moment CROSS JOIN dibs_lane AS lane
  LEFT JOIN unnest($7::bigint[], $8::bigint[], $9::bigint[]) AS place (lane, due, seq) ON place.lane = lane.id
  WHERE ($2::text[] IS NULL OR lane.queue = ANY ($2)) AND ($3::text[] IS NULL OR lane.task = ANY ($3))
    AND NOT EXISTS (
      SELECT FROM dibs_document AS pause
      WHERE pause.name = 'paused/' || lane.queue AND (pause.expires IS NULL OR pause.expires > moment.now) OFFSET 0)
), busy AS MATERIALIZED (
  SELECT lane.*, first.due AS first
  FROM moment CROSS JOIN lane CROSS JOIN LATERAL (
    SELECT job.due FROM dibs_job AS job
    WHERE job.lane = lane.id AND job.status = 'pending' AND (job.due, job.seq) >= (lane.due, lane.seq)
      AND job.due <= moment.now AND job.max_attempts - job.attempts >= $6::integer
    ORDER BY job.due, job.seq LIMIT 1
  ) AS first
), enough AS MATERIALIZED (
  SELECT busy.level, busy.first FROM busy ORDER BY busy.level, busy.first LIMIT 1 OFFSET $14::integer - 1
), candidate AS MATERIALIZED (
  SELECT lane.id, lane.queue, lane.task, lane.priority, lane.level, lane.due, lane.seq
  FROM (
    SELECT busy.*, CASE busy.level WHEN (SELECT enough.level FROM enough) THEN (SELECT enough.first FROM enough)
      ELSE moment.now END AS until
    FROM moment CROSS JOIN busy
    WHERE (busy.level, busy.first) <= (
      coalesce((SELECT enough.level FROM enough), busy.level), coalesce((SELECT enough.first FROM enough), busy.first))
    ORDER BY busy.level
  ) AS lane CROSS JOIN LATERAL (
    SELECT job.due, job.seq FROM dibs_job AS job
    WHERE job.lane = lane.id AND job.status = 'pending' AND (job.due, job.seq) >= (lane.due, lane.seq)
      AND job.due <= lane.until AND job.max_attempts - job.attempts >= $6::integer
    ORDER BY job.due, job.seq LIMIT $14::integer
  ) AS job
  ORDER BY lane.level, job.due, job.seq LIMIT $14::integer
), picked AS MATERIALIZED (
  SELECT job.ctid, job.seq, lane.queue, lane.task, lane.priority,
    row_number() OVER (ORDER BY lane.level, job.due, job.seq)::integer AS rank
  FROM moment CROSS JOIN (
    SELECT candidate.*, count(*) AS number FROM candidate GROUP BY id, queue, task, priority, level, due, seq
  ) AS lane CROSS JOIN LATERAL (
    SELECT job.ctid, job.due, job.seq FROM dibs_job AS job
    WHERE job.lane = lane.id AND job.status = 'pending' AND (job.due, job.seq) >= (lane.due, lane.seq)
      AND job.due <= moment.now AND job.max_attempts - job.attempts >= $6::integer
    ORDER BY job.due, job.seq LIMIT lane.number FOR UPDATE SKIP LOCKED
  ) AS job
), leased AS MATERIALIZED (
  SELECT picked.*, ($11::text[])[place] AS worker_id, ($12::text[])[place] AS token, ($13::bigint[])[place] AS lease
  FROM (SELECT picked.*, width_bucket(picked.rank, $10::integer[]) AS place FROM picked
    WHERE picked.rank <= $5::integer) AS picked
), taken AS (
  UPDATE dibs_job AS job SET
    status = 'claimed', fence = job.fence + 1, events = job.events + 1, worker_id = leased.worker_id, token = leased.token,
    claimed = greatest(moment.now, job.updated), updated = greatest(moment.now, job.updated),
    claim_lease = coalesce(leased.lease, job.lease),
    lease_expires = greatest(moment.now, job.updated) + coalesce(leased.lease, job.lease), settled_as = NULL, untold = 1
  FROM moment, leased WHERE job.ctid = leased.ctid AND job.status || '' = 'pending'
  RETURNING leased.rank, job.lane, job.seq, job.id, leased.queue, leased.task, job.params, leased.priority, job.due,
    job.attempts, job.max_attempts, job.fence, job.created, job.terms, job.claimed, job.claim_lease, job.idempotency_key,
    job.unique_key, job.batch_id, job.error, job.progress, job.progress_note, job.events, job.worker_id, job.lease_expires
), kept AS MATERIALIZED (
  SELECT setval('dibs_clock', greatest(moment.now, (SELECT last_value FROM dibs_clock))) AS at
  FROM moment WHERE EXISTS (SELECT FROM taken)
)
SELECT moment.now, (SELECT count(*) FROM candidate), kept.at, taken.*,
  CASE WHEN $15::boolean AND taken.seq IS NULL THEN (
    SELECT job.lease_expires FROM dibs_job AS job
    WHERE job.status = 'claimed' AND job.lease_expires >= 0 ORDER BY job.lease_expires LIMIT 1) END
FROM moment LEFT JOIN taken ON true LEFT JOIN kept ON true
