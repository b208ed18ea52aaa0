-- What `perdure doctor` looks at. Nothing here changes anything that stays.

-- name: server
SELECT current_setting('server_version') AS version,
       current_setting('server_version_num')::int AS version_number,
       current_setting('server_encoding') AS encoding,
       current_setting('max_connections')::int AS max_connections,
       clock_timestamp() AS now,
       pg_is_in_recovery() AS is_standby,
       current_setting('default_transaction_read_only') = 'on' AS is_read_only

-- name: connections
SELECT count(*)::int AS used FROM pg_stat_activity WHERE backend_type = 'client backend'

-- name: durability
SELECT name, setting FROM pg_settings
 WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes') ORDER BY name

-- name: tables
-- From the catalogue: the information schema hides what the role may not use.
SELECT relname AS name, relpersistence AS persistence,
       (SELECT jsonb_object_agg(attname, format_type(atttypid, NULL)) FROM pg_attribute
         WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped) AS columns,
       (SELECT coalesce(jsonb_agg(keys.columns), '[]') FROM (
            SELECT (SELECT jsonb_agg(attname ORDER BY attname) FROM pg_attribute
                     WHERE attrelid = indrelid AND attnum = ANY (indkey::smallint[])) AS columns
              FROM pg_index WHERE indrelid = pg_class.oid AND indisunique AND indisvalid AND indpred IS NULL
        ) AS keys) AS keys
  FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
 WHERE nspname = %(in_schema)s AND relname = ANY (%(tables)s) AND relkind IN ('r', 'p')

-- name: topics
SELECT DISTINCT topic FROM {schema}.{events} WHERE topic LIKE 'perdure.%%'

-- name: patience
SET LOCAL statement_timeout = '10s'

-- name: write_schema
-- As every program of perdure does when it connects; it needs the right to create in this database.
CREATE SCHEMA IF NOT EXISTS {schema}

-- name: write_table
CREATE TABLE {schema}.perdure_doctor (line text)

-- name: write_row
INSERT INTO {schema}.perdure_doctor VALUES ('was here')

-- name: lacking
-- Rights on the tables that are there.
SELECT relname || ': ' || wanted AS privilege
  FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
 CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted
 WHERE nspname = %(in_schema)s AND relname = ANY (%(tables)s) AND relkind IN ('r', 'p')
   AND (relname <> %(log)s OR wanted IN ('SELECT', 'INSERT'))
   AND NOT has_table_privilege(pg_class.oid, wanted)
 ORDER BY privilege
