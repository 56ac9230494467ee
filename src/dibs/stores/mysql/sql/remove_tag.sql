-- remove_tag.sql: the tags of jobs that go.
-- Race: none, the jobs' rows are locked. Index: primary key. Order: none.
DELETE tag
FROM JSON_TABLE(%s, '$[*]' COLUMNS (tag varchar(255) CHARACTER SET utf8mb4 PATH '$[0]', job bigint PATH '$[1]')) AS given
STRAIGHT_JOIN dibs_tag AS tag FORCE INDEX (PRIMARY) ON tag.tag = given.tag AND tag.job = given.job
