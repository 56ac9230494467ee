-- migration_create.sql: remember which migrations this database has seen.
-- Race: none, under migration_lock. Index: none. Order: none.
CREATE TABLE IF NOT EXISTS dibs_migration (
  version int NOT NULL PRIMARY KEY, name varchar(255) NOT NULL, at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP) ENGINE = InnoDB
