-- examine_setting.sql: settings as this connection sees them; those that this server does not have are left out.
-- Race: none. Index: none. Order: none.
SELECT name, setting FROM pg_settings WHERE name = ANY ($1::text[])
