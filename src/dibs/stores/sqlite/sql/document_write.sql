-- document_write.sql: a document as it is from now on.
-- Race: two writers, one version: compared under this write lock. Index: primary key. Order: none.
INSERT OR REPLACE INTO dibs_document (name, version, value, updated, expires) VALUES (?, ?, ?, ?, ?)
