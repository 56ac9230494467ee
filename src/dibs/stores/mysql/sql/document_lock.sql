-- document_lock.sql: lock a document that is to be written, whether its time is over or not.
-- Race: two writers, one version: the second waits, for a moment. One that is not there cannot be locked: then the second
--   insert meets the primary key, and asks again. Index: primary key. Order: none; no one holds two.
SELECT version, expires FROM dibs_document WHERE name = %s FOR UPDATE
