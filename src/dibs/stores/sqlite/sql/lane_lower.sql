-- lane_lower.sql: something that is due earlier has come into a lane. Never raises: the bound must stay a bound.
-- Race: none, the caller holds the write lock. Index: primary key. Order: none.
UPDATE dibs_lane SET next_due = ?2 WHERE id = ?1 AND next_due > ?2
