-- document_read.sql: one document, unless its time is over.
-- Race: two writers, one version: both hold the write lock in turn. Index: primary key. Order: none.
SELECT name, version, value, updated, expires FROM dibs_document
WHERE name = ?1 AND (expires IS NULL OR expires > ?2)
