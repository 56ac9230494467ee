-- examine_connection.sql: how many may connect, how many of this user (0: as many as that), and how many of its are there?
-- Race: others come and go; it is a look. Index: none. Order: none.
SELECT @@global.max_connections, @@session.max_user_connections, count(*)
FROM information_schema.processlist AS process WHERE process.user = SUBSTRING_INDEX(user(), '@', 1)
