-- lane_names.sql: what lanes are called.
-- Race: none, a lane that a job refers to stays. Shared: a user's snapshot may be older than the lane. Index: primary key.
-- Order: none.
SELECT lane.id, lane.queue, lane.task, lane.priority
FROM JSON_TABLE(%s, '$[*]' COLUMNS (id bigint PATH '$')) AS given
STRAIGHT_JOIN dibs_lane AS lane FORCE INDEX (PRIMARY) ON lane.id = given.id
LOCK IN SHARE MODE
