-- Finding runs to drive, straight from the log.
--
-- `waiting` jumps from stream to stream by the primary key, so the cost grows with the number of runs and not
-- with the number of events.

-- name: waiting
WITH RECURSIVE stream AS (
    (SELECT originator_id AS run_id FROM {schema}.{events} ORDER BY originator_id LIMIT 1)
    UNION ALL
    SELECT (SELECT originator_id FROM {schema}.{events}
             WHERE originator_id > stream.run_id ORDER BY originator_id LIMIT 1)
      FROM stream WHERE stream.run_id IS NOT NULL
)
SELECT stream.run_id, last_event.version, first_event.position
  FROM stream
 CROSS JOIN LATERAL (
        SELECT originator_version AS version, topic FROM {schema}.{events}
         WHERE originator_id = stream.run_id
         ORDER BY originator_version DESC LIMIT 1) AS last_event
 CROSS JOIN LATERAL (
        SELECT notification_id AS position FROM {schema}.{events}
         WHERE originator_id = stream.run_id AND originator_version = 1
           AND topic = ANY (%(starting)s)) AS first_event
 WHERE last_event.topic <> ALL (%(resting)s)
   AND NOT EXISTS (
        SELECT FROM {schema}.leases
         WHERE leases.run_id = stream.run_id
           AND leases.owner IS NOT NULL AND leases.expires_at > clock_timestamp())

-- name: first_states
SELECT originator_id AS run_id, state FROM {schema}.{events}
 WHERE originator_id = ANY (%(run_ids)s) AND originator_version = 1
