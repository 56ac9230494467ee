-- restore.sql: jobs as another store has them, all or none: none if a lane is gone.
-- Race: one name, two who bring it: the unique indexes hold, and whoever they stop looks again. A lane that is being removed:
--   FOR KEY SHARE, as in insert.sql. Log: all of it is in dibs_event, so nothing is untold. The clock is told by write_clock.
-- Index: dibs_name_pkey, dibs_job_idempotency_key, dibs_job_unique_key, the lane's primary key. Order: seq is the order in
--   which they were given.
WITH lane AS MATERIALIZED (
  SELECT lane.id FROM dibs_lane AS lane WHERE lane.id = ANY ($1::bigint[]) FOR KEY SHARE
), added AS (
  INSERT INTO dibs_job
    (lane, id, status, due, first_due, attempts, max_attempts, fence, events, created, updated, lease, kept, worker_id,
     claimed, lease_expires, claim_lease, settled_as, completed, expires, progress, progress_note, idempotency_key, unique_key,
     batch_id, terms, params, error, result)
  SELECT new.lane, new.id, new.status, new.due, new.first_due, new.attempts, new.max_attempts, new.fence, new.events,
    new.created, new.updated, new.lease, new.kept, new.worker_id, new.claimed, new.lease_expires, new.claim_lease,
    new.settled_as, new.completed, new.expires, new.progress, new.progress_note, new.idempotency_key, new.unique_key,
    new.batch_id, new.terms, new.params, new.error, new.result
  FROM unnest(
    $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::integer[], $8::integer[], $9::bigint[],
    $10::integer[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[], $16::bigint[], $17::bigint[],
    $18::bigint[], $19::text[], $20::bigint[], $21::bigint[], $22::double precision[], $23::text[], $24::text[],
    $25::text[], $26::text[], $27::bytea[], $28::bytea[], $29::bytea[], $30::bytea[]
  ) WITH ORDINALITY AS new (
    lane, id, status, due, first_due, attempts, max_attempts, fence, events, created, updated, lease, kept, worker_id,
    claimed, lease_expires, claim_lease, settled_as, completed, expires, progress, progress_note, idempotency_key, unique_key,
    batch_id, terms, params, error, result, place
  )
  WHERE (SELECT count(*) FROM lane) = cardinality($1::bigint[])
  ORDER BY new.place
  RETURNING seq, id
), named AS (
  INSERT INTO dibs_name (id, job) SELECT id, seq FROM added
)
SELECT seq, id FROM added
