-- remove_log.sql: the logs of jobs that go.
-- Race: none, the jobs' rows are locked. Index: primary key. Order: none.
DELETE event FROM JSON_TABLE(%s, '$[*]' COLUMNS (seq bigint PATH '$')) AS given
STRAIGHT_JOIN dibs_event AS event FORCE INDEX (PRIMARY) ON event.job = given.seq
