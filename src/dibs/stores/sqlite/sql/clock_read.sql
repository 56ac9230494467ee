-- clock_read.sql: what the store's clock may not fall behind: when something was last changed.
-- Race: read inside the transaction that uses it. Index: primary key. Order: none.
SELECT high FROM dibs_clock WHERE id = 1
