-- lane_prune_find.sql: the next few lanes, in turn: lane_prune asks whether any of them is still used.
-- Race: none, the caller holds the write lock. Index: primary key. Order: the lanes' own.
SELECT id FROM dibs_lane WHERE id > ?1 ORDER BY id LIMIT ?2
