-- write_log.sql: one event for each change.
-- Race: none, in the transaction of the changes that they tell of. Index: primary key. Order: numbered by the job itself.
INSERT INTO dibs_event (job, n, event, before, after, worker_id, actor, fence, attempts, due, lease_expires, at, note)
SELECT * FROM unnest(
  $1::bigint[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::integer[],
  $10::bigint[], $11::bigint[], $12::bigint[], $13::text[])
