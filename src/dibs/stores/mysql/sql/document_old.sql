-- document_old.sql: lock documents whose time is over, a few at a time.
-- Race: one written anew has another time, which is compared under its lock. Index: dibs_document_expires. Order: oldest first,
--   as the index has it.
SELECT name FROM dibs_document FORCE INDEX (dibs_document_expires) WHERE expires <= %s ORDER BY expires LIMIT %s FOR UPDATE SKIP LOCKED
