-- tombstone_prune.sql: what was pruned long ago is forgotten.
-- Race: none, the rows are locked. Index: primary key. Order: none.
DELETE gone
FROM JSON_TABLE(%s, '$[*]' COLUMNS (id varchar(512) CHARACTER SET utf8mb4 PATH '$')) AS given
STRAIGHT_JOIN dibs_tombstone AS gone FORCE INDEX (PRIMARY) ON gone.id = given.id
