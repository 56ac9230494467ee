-- examine_status.sql: how many are connected?
-- Race: others come and go; it is a look. Index: none. Order: none.
SHOW GLOBAL STATUS WHERE variable_name = 'Threads_connected'
