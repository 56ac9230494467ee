-- examine_write.sql: may this user write at all, on this server? Refused if it may not; it changes nothing.
-- Race: none. Index: none. Order: none.
START TRANSACTION READ WRITE
