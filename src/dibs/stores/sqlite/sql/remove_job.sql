-- remove_job.sql: a job goes.
-- Race: none, the caller holds the write lock. Index: primary key. Order: none.
DELETE FROM dibs_job WHERE seq IN (SELECT value FROM json_each(?))
