-- write_abort.sql: end a user's transaction whose claim was lost: it can only be rolled back after this.
-- Race: a stale holder that does not look at our answer. Index: none. Order: none.
DO $$ BEGIN RAISE EXCEPTION 'dibs: the claim was lost, so this transaction must not be committed' USING ERRCODE = 'DB001'; END $$
