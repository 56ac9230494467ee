-- tombstone_prune.sql: what was pruned long ago is forgotten, a little at a time.
-- Race: none, the caller holds the write lock. Index: dibs_tombstone_at. Order: oldest first.
DELETE FROM dibs_tombstone WHERE id IN (SELECT id FROM dibs_tombstone WHERE at <= ? ORDER BY at LIMIT ?)
