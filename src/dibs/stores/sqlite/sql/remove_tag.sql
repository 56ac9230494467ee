-- remove_tag.sql: a job's tags go with it.
-- Race: none, in the transaction of remove_job. Index: primary key. Order: none.
DELETE FROM dibs_tag WHERE tag = ? AND job = ?
