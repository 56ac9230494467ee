-- insert.sql: new jobs, all or none: none if a name is taken, or a lane is gone.
-- Race: one name, two enqueues: a name that another transaction has not committed yet is waited for, for $2, and the unique
--   indexes hold. A lane that is being removed: FOR KEY SHARE, as a foreign key would. Index: dibs_name_pkey,
--   dibs_job_idempotency_key, dibs_job_unique_key, the lane's primary key. Order: seq is the order in which they were given.
WITH moment AS MATERIALIZED (
  SELECT set_config('lock_timeout', $2::text, true) AS patience,
    greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) AS now
  FROM dibs_clock
), lane AS MATERIALIZED (
  SELECT lane.id FROM dibs_lane AS lane WHERE lane.id = ANY ($3::bigint[]) FOR KEY SHARE
), added AS (
  INSERT INTO dibs_job
    (lane, id, due, first_due, created, updated, max_attempts, lease, kept, idempotency_key, unique_key, batch_id, terms, params)
  SELECT new.lane, new.id, due.at, due.at, moment.now, moment.now, new.max_attempts, new.lease, new.kept,
    new.idempotency_key, new.unique_key, new.batch_id, new.terms, new.params
  FROM moment CROSS JOIN unnest(
    $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::integer[], $9::bigint[], $10::bigint[], $11::text[],
    $12::text[], $13::text[], $14::bytea[], $15::bytea[]
  ) WITH ORDINALITY AS new (
    lane, id, delay, scheduled, max_attempts, lease, kept, idempotency_key, unique_key, batch_id, terms, params, place
  ) CROSS JOIN LATERAL (
    SELECT CASE WHEN new.delay IS NULL THEN 4611686018427387904
      ELSE greatest(moment.now + new.delay, new.scheduled) END AS at
  ) AS due
  WHERE (SELECT count(*) FROM lane) = cardinality($3::bigint[])
    AND NOT EXISTS (SELECT FROM dibs_name AS name WHERE name.id = ANY ($5::text[]))
    AND NOT EXISTS (
      SELECT FROM dibs_job AS job WHERE job.idempotency_key IS NOT NULL AND job.idempotency_key = ANY ($11::text[]))
    AND NOT EXISTS (
      SELECT FROM dibs_job AS job
      WHERE job.unique_key IS NOT NULL AND job.expires IS NULL AND job.unique_key = ANY ($12::text[]))
  ORDER BY new.place
  RETURNING seq, id
), named AS (
  INSERT INTO dibs_name (id, job) SELECT id, seq FROM added
), kept AS MATERIALIZED (
  SELECT setval('dibs_clock', greatest(moment.now, (SELECT last_value FROM dibs_clock))) AS at
  FROM moment WHERE EXISTS (SELECT FROM added)
)
SELECT moment.now, moment.patience, (SELECT count(*) FROM added), kept.at FROM moment LEFT JOIN kept ON true
