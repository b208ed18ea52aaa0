-- Workers: who is there, and what each can serve. Rows stay for a day after the last sign of life, so that
-- it can be told since when nobody could serve a run.

-- name: create
CREATE TABLE IF NOT EXISTS {schema}.workers (
    owner   text        PRIMARY KEY,
    offers  bytea       NOT NULL,
    until   timestamptz NOT NULL
)

-- name: announce
WITH forgotten AS (
    DELETE FROM {schema}.workers
     WHERE until < clock_timestamp() - interval '1 day' AND owner <> %(owner)s
)
INSERT INTO {schema}.workers AS worker (owner, offers, until)
VALUES (%(owner)s, %(offers)s, clock_timestamp() + make_interval(secs => %(ttl)s))
ON CONFLICT (owner) DO UPDATE SET offers = excluded.offers, until = excluded.until

-- name: leave
UPDATE {schema}.workers SET until = clock_timestamp() WHERE owner = %(owner)s

-- name: all
SELECT owner, offers, until FROM {schema}.workers ORDER BY owner
