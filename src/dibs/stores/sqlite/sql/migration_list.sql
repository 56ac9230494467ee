-- migration_list.sql: which steps has this file seen?
-- Race: as migration_known. Index: primary key. Order: none.
SELECT version, name FROM dibs_migration
