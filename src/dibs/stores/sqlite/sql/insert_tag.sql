-- insert_tag.sql: a new job's tags, so that it is found by them.
-- Race: none, in the transaction of insert_job. Index: primary key. Order: none.
INSERT OR IGNORE INTO dibs_tag (tag, job) VALUES (?, ?)
