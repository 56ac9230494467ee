-- lane_share.sql: which of these lanes are there, and see that they stay until the commit.
-- Race: a lane that is being removed: who removes it passes by what is shared, and who comes later finds it gone.
-- Index: primary key. Order: none.
SELECT lane.id
FROM JSON_TABLE(%s, '$[*]' COLUMNS (id bigint PATH '$')) AS given
STRAIGHT_JOIN dibs_lane AS lane FORCE INDEX (PRIMARY) ON lane.id = given.id
LOCK IN SHARE MODE
