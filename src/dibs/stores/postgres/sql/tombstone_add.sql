-- tombstone_add.sql: pruned jobs' last events; an id that was used again leaves its last one.
-- Race: one id pruned twice at once cannot be, for its row was locked. Index: primary key. Order: by id, so that two who
--   write the same do not wait for each other in a circle.
INSERT INTO dibs_tombstone (id, n, before, actor, fence, attempts, due, at, note)
SELECT * FROM unnest(
  $1::text[], $2::integer[], $3::text[], $4::text[], $5::bigint[], $6::integer[], $7::bigint[], $8::bigint[], $9::text[]
) AS new (id, n, before, actor, fence, attempts, due, at, note) ORDER BY new.id
ON CONFLICT (id) DO UPDATE SET
  n = excluded.n, before = excluded.before, actor = excluded.actor, fence = excluded.fence, attempts = excluded.attempts,
  due = excluded.due, at = excluded.at, note = excluded.note
