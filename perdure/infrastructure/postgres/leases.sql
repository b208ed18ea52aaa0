-- Leases: who drives which run, and until when.
--
-- One row a run that was ever claimed. `epoch` numbers the claims of a run and only grows; each claim is
-- also an event in the run's log, and the log's unique key is what keeps a stale worker out. This table
-- only says whom to ask first: it can be dropped at any time, and claims then go on above the newest epoch
-- in the log. Time is this database's, never a worker's.

-- name: create
CREATE TABLE IF NOT EXISTS {schema}.leases (
    run_id      text        PRIMARY KEY,
    owner       text,
    epoch       bigint      NOT NULL,
    claimed_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
)

-- name: claim
-- Take a run that nobody holds; no row comes back when somebody does.
WITH before AS (
    SELECT owner, epoch FROM {schema}.leases WHERE run_id = %(run_id)s
), claimed AS (
    INSERT INTO {schema}.leases AS lease (run_id, owner, epoch, claimed_at, expires_at)
    VALUES (%(run_id)s, %(owner)s, %(above)s + 1, clock_timestamp(),
            clock_timestamp() + make_interval(secs => %(ttl)s))
    ON CONFLICT (run_id) DO UPDATE
       SET owner = excluded.owner,
           epoch = greatest(lease.epoch, %(above)s) + 1,
           claimed_at = excluded.claimed_at,
           expires_at = excluded.expires_at
     WHERE lease.owner IS NULL OR lease.expires_at <= clock_timestamp()
    RETURNING epoch
)
SELECT claimed.epoch, before.epoch AS epoch_before, before.owner AS owner_before
  FROM claimed LEFT JOIN before ON true

-- name: renew
-- Prolong what is still this owner's; an expired lease that nobody took counts as that.
UPDATE {schema}.leases AS lease
   SET expires_at = clock_timestamp() + make_interval(secs => %(ttl)s)
  FROM unnest(%(run_ids)s::text[], %(epochs)s::bigint[]) AS held (run_id, epoch)
 WHERE lease.run_id = held.run_id AND lease.epoch = held.epoch AND lease.owner = %(owner)s
RETURNING lease.run_id

-- name: release
UPDATE {schema}.leases SET owner = NULL, expires_at = clock_timestamp()
 WHERE run_id = %(run_id)s AND owner = %(owner)s AND epoch = %(epoch)s

-- name: seconds_left
-- How long the lease still lasts, counted from this statement; no row when it is not held.
SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 AS seconds_left
  FROM {schema}.leases
 WHERE run_id = %(run_id)s AND owner = %(owner)s AND epoch = %(epoch)s

-- name: find
SELECT run_id, owner, epoch, expires_at,
       owner IS NOT NULL AND expires_at > clock_timestamp() AS is_live
  FROM {schema}.leases WHERE run_id = %(run_id)s

-- name: all
SELECT run_id, owner, epoch, expires_at, expires_at > clock_timestamp() AS is_live
  FROM {schema}.leases WHERE owner IS NOT NULL ORDER BY run_id

-- name: now
SELECT clock_timestamp() AS now
