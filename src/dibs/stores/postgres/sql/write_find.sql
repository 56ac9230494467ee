-- write_find.sql: lock jobs that are to be judged, and tell which of them another transaction holds.
-- Race: a stale holder; judged by the domain on the row as it is under this lock. What is locked is read as it is now, and
--   not as the snapshot saw it. Skipping keeps those who hold one row from waiting for another's.
-- Index: dibs_name_pkey, primary keys (LATERAL: ADR 8). Order: none.
WITH moment AS MATERIALIZED (
  SELECT set_config('lock_timeout', '250ms', true) AS patience,
    greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) AS now
  FROM dibs_clock
), held AS MATERIALIZED (
  SELECT job.seq, job.lane, job.id, lane.queue, lane.task, ''::bytea AS params, lane.priority, job.status, job.due,
    job.attempts, job.max_attempts, job.fence, job.created, job.updated, job.terms, job.worker_id, job.claimed,
    job.lease_expires, job.claim_lease, job.token, job.settled_as, job.idempotency_key, job.unique_key, job.batch_id,
    job.result, job.error, job.progress, job.progress_note, job.completed, job.events, job.expires, job.first_due
  FROM dibs_name AS name CROSS JOIN LATERAL (
    SELECT * FROM dibs_job AS job WHERE job.seq = name.job FOR UPDATE SKIP LOCKED
  ) AS job JOIN dibs_lane AS lane ON lane.id = job.lane
  WHERE name.id = ANY ($2::text[])
)
SELECT moment.now, moment.patience, true, held.* FROM moment CROSS JOIN held
UNION ALL
SELECT moment.now, moment.patience, false, whole.*
FROM moment CROSS JOIN dibs_name AS name CROSS JOIN LATERAL (
  SELECT * FROM dibs_whole AS whole WHERE whole.seq = name.job OFFSET 0
) AS whole
WHERE name.id = ANY ($2::text[]) AND name.job <> ALL (ARRAY(SELECT held.seq FROM held))
