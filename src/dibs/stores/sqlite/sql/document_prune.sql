-- document_prune.sql: documents whose time is over go, a few at a time.
-- Race: one written anew has another time. Index: dibs_document_expires. Order: none.
DELETE FROM dibs_document WHERE name IN
  (SELECT name FROM dibs_document WHERE expires IS NOT NULL AND expires <= ?1 ORDER BY expires LIMIT ?2)
