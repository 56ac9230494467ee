-- extend.sql: longer leases for the claims that this transaction has just locked.
-- Race: none, the rows are locked; updated comes last, as in claim_take. Index: primary key. Order: none.
UPDATE dibs_job SET
  lease_expires = greatest(lease_expires, greatest(%s, updated) + claim_lease), updated = greatest(%s, updated)
WHERE seq IN %s
