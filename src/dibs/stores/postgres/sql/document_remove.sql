-- document_remove.sql: a document goes.
-- Race: as document_write. Index: primary key. Order: none.
DELETE FROM dibs_document WHERE name = $1
