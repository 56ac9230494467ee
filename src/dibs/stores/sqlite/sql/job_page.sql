-- job_page.sql: whole jobs after a place, for the audit.
-- Race: none, a snapshot. Index: primary keys. Order: enqueue order.
SELECT * FROM dibs_whole WHERE seq > ?1 ORDER BY seq LIMIT ?2
