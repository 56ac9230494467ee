-- newest.sql: when was the newest job made? The store's clock never shows less, in any process that shares the file.
-- Race: read inside the transaction that uses it. Index: primary key, its last entry. Order: enqueue order, backwards.
SELECT created FROM dibs_job ORDER BY seq DESC LIMIT 1
