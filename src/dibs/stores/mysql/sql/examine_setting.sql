-- examine_setting.sql: settings of the server; those that it does not have are left out.
-- Race: none. Index: none. Order: none.
SHOW GLOBAL VARIABLES WHERE variable_name IN %s
