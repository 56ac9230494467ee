-- document_lock.sql: wait for one's turn to write a document, there or not.
-- Race: two writers, one version, and no row to lock if it is new: so its name is locked, until the commit. Index: none.
-- Order: none; no one holds two.
SELECT pg_advisory_xact_lock(hashtextextended('dibs_document/' || current_schema() || '/' || $1, 0))
