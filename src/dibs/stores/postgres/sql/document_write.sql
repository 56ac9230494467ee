-- document_write.sql: a document as it is from now on.
-- Race: two writers, one version: both hold the name's lock in turn, and this statement sees what the other committed; one
--   that prunes at the same time removes the old row, and this writes a new one. Index: primary key. Order: none.
INSERT INTO dibs_document (name, version, value, updated, expires) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (name) DO UPDATE SET
  version = excluded.version, value = excluded.value, updated = excluded.updated, expires = excluded.expires
