-- remove_payload.sql: what a job carried goes with it.
-- Race: none, in the transaction of remove_job. Index: primary key. Order: none.
DELETE FROM dibs_payload WHERE seq IN (SELECT value FROM json_each(?))
