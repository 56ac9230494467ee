-- lane_level_above.sql: the next higher priority in which anything waits.
-- Race: none, the caller holds the write lock. Index: dibs_lane_due, one step. Order: priority, ascending.
SELECT priority FROM dibs_lane INDEXED BY dibs_lane_due WHERE next_due < 4611686018427387904 AND priority > ? ORDER BY priority LIMIT 1
