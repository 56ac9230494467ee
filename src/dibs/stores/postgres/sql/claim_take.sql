-- claim_take.sql: lease the jobs that this transaction has just picked and locked.
-- Race: none, the rows are locked; the status is compared all the same. Index: primary keys, then
--   ctid (ADR 8). Order: rank, the order in which they were picked; the rows themselves come in any order. Log: as in claim.sql.
WITH moment AS MATERIALIZED (
  SELECT greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) AS now
  FROM dibs_clock
), taken AS (
  UPDATE dibs_job AS job SET
    status = 'claimed', fence = job.fence + 1, events = job.events + 1, worker_id = $3, token = $4,
    claimed = greatest(moment.now, job.updated), updated = greatest(moment.now, job.updated),
    claim_lease = coalesce($5::bigint, job.lease),
    lease_expires = greatest(moment.now, job.updated) + coalesce($5::bigint, job.lease), settled_as = NULL, untold = 1
  FROM moment CROSS JOIN unnest($2::bigint[]) WITH ORDINALITY AS picked (seq, rank)
  CROSS JOIN LATERAL (SELECT old.ctid, old.lane FROM dibs_job AS old WHERE old.seq = picked.seq OFFSET 0) AS old
  JOIN dibs_lane AS lane ON lane.id = old.lane
  WHERE job.ctid = old.ctid AND job.status || '' = 'pending'
  RETURNING picked.rank, job.lane, job.seq, job.id, lane.queue, lane.task, job.params, lane.priority, job.due,
    job.attempts, job.max_attempts, job.fence, job.created, job.terms, job.claimed, job.claim_lease, job.idempotency_key,
    job.unique_key, job.batch_id, job.error, job.progress, job.progress_note, job.events, job.worker_id, job.lease_expires
), kept AS MATERIALIZED (
  SELECT setval('dibs_clock', greatest(moment.now, (SELECT last_value FROM dibs_clock))) AS at
  FROM moment WHERE EXISTS (SELECT FROM taken)
)
SELECT moment.now, 0, kept.at, taken.* FROM moment CROSS JOIN taken LEFT JOIN kept ON true
