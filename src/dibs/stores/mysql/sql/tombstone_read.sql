-- tombstone_read.sql: what is left of a pruned job.
-- Race: none. Index: primary key. Order: none.
SELECT id, n, was, actor, fence, attempts, due, at, note FROM dibs_tombstone WHERE id = %s
