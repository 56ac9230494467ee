-- lane_level_below.sql: the next lower priority in which anything waits.
-- Race: none, the caller holds the write lock. Index: dibs_lane_due, one step. Order: priority, descending.
SELECT priority FROM dibs_lane INDEXED BY dibs_lane_due WHERE next_due < 4611686018427387904 AND priority < ? ORDER BY priority DESC LIMIT 1
