-- document_remove.sql: a document goes.
-- Race: none, the row is locked. Index: primary key. Order: none.
DELETE FROM dibs_document WHERE name = %s
