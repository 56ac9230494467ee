-- examine_server.sql: who are we, where, and what time is it there?
-- Race: none. Index: none. Order: none.
SELECT version(), current_user(), database(), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), @@global.innodb_read_only
