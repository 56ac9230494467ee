-- document_write.sql: a document as it is from now on.
-- Race: none, the row is locked. Index: primary key. Order: none.
UPDATE dibs_document SET version = %s, value = %s, updated = %s, expires = %s WHERE name = %s
