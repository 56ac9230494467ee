-- lane_remove.sql: locked lanes go.
-- Race: none, they are locked and unused. Index: primary key. Order: none.
DELETE lane
FROM JSON_TABLE(%s, '$[*]' COLUMNS (id bigint PATH '$')) AS given
STRAIGHT_JOIN dibs_lane AS lane FORCE INDEX (PRIMARY) ON lane.id = given.id
