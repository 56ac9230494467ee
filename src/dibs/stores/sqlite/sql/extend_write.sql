-- extend_write.sql: a longer lease, and how far the work has come.
-- Race: as extend_find. Index: primary key. Order: none.
UPDATE dibs_job NOT INDEXED SET lease_expires = ?, updated = ?, progress = ?, progress_note = ? WHERE seq = ?
