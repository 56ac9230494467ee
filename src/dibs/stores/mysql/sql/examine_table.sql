-- examine_table.sql: what are dibs's tables made of?
-- Race: none. Index: none. Order: by name.
SELECT known.table_name, known.engine, known.row_format FROM information_schema.tables AS known
WHERE known.table_schema = database() AND known.table_name LIKE 'dibs\_%' AND known.table_type = 'BASE TABLE'
ORDER BY known.table_name
