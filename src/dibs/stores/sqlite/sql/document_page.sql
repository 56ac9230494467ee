-- document_page.sql: documents whose name lies in a range.
-- Race: none, a snapshot. Index: primary key. Order: name, by bytes.
SELECT name, version, value, updated, expires FROM dibs_document
WHERE name >= ?1 AND name < ?2 AND (expires IS NULL OR expires > ?3) ORDER BY name
