-- insert_payload.sql: what a new job carries.
-- Race: none, in the transaction of insert_job. Index: primary key. Order: none.
INSERT INTO dibs_payload (seq, due, terms, params) VALUES (?, ?, ?, ?)
