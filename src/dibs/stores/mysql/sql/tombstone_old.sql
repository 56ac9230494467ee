-- tombstone_old.sql: lock what was pruned long ago, a little at a time.
-- Race: two who prune -> SKIP LOCKED. Index: dibs_tombstone_at. Order: oldest first, as the index has it.
SELECT id FROM dibs_tombstone FORCE INDEX (dibs_tombstone_at) WHERE at <= %s ORDER BY at LIMIT %s FOR UPDATE SKIP LOCKED
