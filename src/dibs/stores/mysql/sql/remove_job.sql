-- remove_job.sql: jobs go.
-- Race: none, the rows are locked. Index: primary key. Order: none.
DELETE job FROM JSON_TABLE(%s, '$[*]' COLUMNS (seq bigint PATH '$')) AS given
STRAIGHT_JOIN dibs_job AS job FORCE INDEX (PRIMARY) ON job.seq = given.seq
