-- lane_lock.sql: lock lanes that look unused.
-- Race: an enqueue into one holds it shared, and is passed by; one that comes later waits, and finds the lane gone.
-- Index: primary key. Order: none.
SELECT lane.id
FROM JSON_TABLE(%s, '$[*]' COLUMNS (id bigint PATH '$')) AS given
STRAIGHT_JOIN dibs_lane AS lane FORCE INDEX (PRIMARY) ON lane.id = given.id
FOR UPDATE SKIP LOCKED
