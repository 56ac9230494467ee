-- migration_last.sql: how far has this database come?
-- Race: as migration_known. Index: primary key. Order: none.
SELECT coalesce(max(version), 0) FROM dibs_migration
