-- Looking at runs: nothing here changes anything, so a role that may only read, or a standby, is enough.

-- name: is_there
SELECT EXISTS (
    SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
     WHERE nspname = %(in_schema)s AND relname = %(table)s
) AS is_there

-- name: events
SELECT originator_id, originator_version, topic, state
  FROM {schema}.{events}
 WHERE originator_id = %(run_id)s AND topic LIKE 'perdure.%%'
   AND (%(upto)s::bigint IS NULL OR originator_version <= %(upto)s)
 ORDER BY originator_version

-- name: run_ids
SELECT originator_id AS run_id
  FROM {schema}.{events}
 WHERE originator_version = 1 AND originator_id > %(after)s AND topic LIKE 'perdure.%%'
 ORDER BY originator_id LIMIT %(limit)s
