-- Finding runs to drive, straight from the log.
--
-- `last_event` jumps from stream to stream by the primary key, so the cost grows with the number of runs and
-- not with the number of events. The first event of a run says whom it is for and what it is pinned to.

-- name: find
WITH RECURSIVE stream AS (
    (SELECT originator_id AS run_id FROM {schema}.{events} ORDER BY originator_id LIMIT 1)
    UNION ALL
    SELECT (SELECT originator_id FROM {schema}.{events}
             WHERE originator_id > stream.run_id ORDER BY originator_id LIMIT 1)
      FROM stream WHERE stream.run_id IS NOT NULL
), candidate AS (
    SELECT stream.run_id, last_event.version, started.position,
           started.facts ->> 'tenant' AS tenant,
           started.facts ->> 'agent' AS agent,
           started.facts -> 'pins' ->> 'model' AS model,
           started.facts -> 'pins' ->> 'prompt_version' AS prompt_version
      FROM stream
     CROSS JOIN LATERAL (
            SELECT originator_version AS version, topic FROM {schema}.{events}
             WHERE originator_id = stream.run_id
             ORDER BY originator_version DESC LIMIT 1) AS last_event
     CROSS JOIN LATERAL (
            SELECT notification_id AS position, convert_from(state, 'UTF8')::json AS facts
              FROM {schema}.{events}
             WHERE originator_id = stream.run_id AND originator_version = 1
               AND topic = 'perdure.run-started') AS started
     WHERE last_event.topic <> ALL (%(resting)s)
       AND NOT EXISTS (
            SELECT FROM unnest(%(passing_over)s::text[], %(passed_versions)s::bigint[]) AS passed (run_id, version)
             WHERE passed.run_id = stream.run_id
               AND (passed.version IS NULL OR passed.version = last_event.version))
       AND NOT EXISTS (
            SELECT FROM {schema}.leases
             WHERE leases.run_id = stream.run_id
               AND leases.owner IS NOT NULL AND leases.expires_at > clock_timestamp())
), in_turn AS (
    SELECT run_id, version, tenant, position,
           row_number() OVER (PARTITION BY tenant ORDER BY position) AS turn
      FROM candidate
     WHERE %(any_version)s OR (agent, model, prompt_version) IN (
            SELECT * FROM unnest(%(agents)s::text[], %(models)s::text[], %(prompt_versions)s::text[]))
)
SELECT run_id, version, tenant FROM in_turn ORDER BY turn, position LIMIT %(limit)s

-- name: position
SELECT coalesce(max(notification_id), 0) AS position FROM {schema}.{events}

-- name: has_news
SELECT EXISTS (
    SELECT FROM {schema}.{events} WHERE notification_id > %(since)s AND topic = ANY (%(topics)s)
) AS has_news
