-- remove_events.sql: a job's log goes with it.
-- Race: none, in the transaction of remove_job. Index: primary key. Order: none.
DELETE FROM dibs_event WHERE job IN (SELECT value FROM json_each(?))
