-- document_names.sql: the names that lie in a range: which queues are paused.
-- Race: read in the transaction that uses it. Index: primary key. Order: none needed.
SELECT name FROM dibs_document WHERE name >= ?1 AND name < ?2 AND (expires IS NULL OR expires > ?3)
