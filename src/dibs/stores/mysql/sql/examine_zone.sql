-- examine_zone.sql: tell times as InnoDB tells when a transaction began: by the server's own zone, whatever the session's.
-- Race: none. Index: none. Order: none.
SET SESSION time_zone = 'SYSTEM'
