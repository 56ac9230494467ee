-- document_add.sql: a document that was not there.
-- Race: two who add one: the primary key stops the second, which asks again. Index: primary key. Order: none.
INSERT INTO dibs_document (version, value, updated, expires, name) VALUES %s
