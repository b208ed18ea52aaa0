-- What `perdure doctor` looks at. Nothing here changes anything that stays.

-- name: server
SELECT current_setting('server_version') AS version,
       current_setting('server_version_num')::int AS version_number,
       current_setting('server_encoding') AS encoding,
       current_setting('max_connections')::int AS max_connections,
       clock_timestamp() AS now,
       pg_is_in_recovery() AS is_standby,
       current_setting('default_transaction_read_only') AS read_only

-- name: durability
SELECT name, setting FROM pg_settings
 WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes') ORDER BY name

-- name: columns
SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position) AS columns
  FROM information_schema.columns
 WHERE table_schema = %(in_schema)s AND table_name = ANY (%(tables)s)
 GROUP BY table_name

-- name: topics
SELECT DISTINCT topic FROM {schema}.{events} WHERE topic LIKE 'perdure.%%'

-- name: write
CREATE TEMPORARY TABLE perdure_doctor (line text)
