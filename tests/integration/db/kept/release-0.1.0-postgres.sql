SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA dbos;
CREATE FUNCTION dbos.enqueue_workflow(workflow_name text, queue_name text, positional_args json[] DEFAULT ARRAY[]::json[], named_args json DEFAULT '{}'::json, class_name text DEFAULT NULL::text, config_name text DEFAULT NULL::text, workflow_id text DEFAULT NULL::text, app_version text DEFAULT NULL::text, timeout_ms bigint DEFAULT NULL::bigint, deadline_epoch_ms bigint DEFAULT NULL::bigint, deduplication_id text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, queue_partition_key text DEFAULT NULL::text, authenticated_user text DEFAULT NULL::text, authenticated_roles text DEFAULT NULL::text, delay_until_epoch_ms bigint DEFAULT NULL::bigint, application_name text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    v_workflow_id TEXT;
    v_serialized_inputs TEXT;
    v_owner_xid TEXT;
    v_now BIGINT;
    v_recovery_attempts INT4 := 0;
    v_priority INT4;
    v_status TEXT;
BEGIN
    -- Validate required parameters
    IF workflow_name IS NULL OR workflow_name = '' THEN
        RAISE EXCEPTION 'Workflow name cannot be null or empty';
    END IF;
    IF queue_name IS NULL OR queue_name = '' THEN
        RAISE EXCEPTION 'Queue name cannot be null or empty';
    END IF;
    IF named_args IS NOT NULL AND jsonb_typeof(named_args::jsonb) != 'object' THEN
        RAISE EXCEPTION 'Named args must be a JSON object';
    END IF;
    IF workflow_id IS NOT NULL AND workflow_id = '' THEN
        RAISE EXCEPTION 'Workflow ID cannot be an empty string if provided.';
    END IF;
    IF delay_until_epoch_ms IS NOT NULL AND delay_until_epoch_ms < 0 THEN
        RAISE EXCEPTION 'delay_until_epoch_ms must be >= 0';
    END IF;
    v_workflow_id := COALESCE(workflow_id, gen_random_uuid()::TEXT);
    v_owner_xid := gen_random_uuid()::TEXT;
    v_priority := COALESCE(priority, 0);
    v_serialized_inputs := json_build_object(
        'positionalArgs', positional_args,
        'namedArgs', named_args
    )::TEXT;
    v_now := EXTRACT(epoch FROM now()) * 1000;
    v_status := CASE WHEN delay_until_epoch_ms IS NULL THEN 'ENQUEUED' ELSE 'DELAYED' END;
    INSERT INTO "dbos".workflow_status (
        workflow_uuid, status,
        name, class_name, config_name,
        queue_name, deduplication_id, priority, queue_partition_key,
        application_version,
        created_at, updated_at, recovery_attempts,
        workflow_timeout_ms, workflow_deadline_epoch_ms,
        parent_workflow_id, owner_xid, serialization,
        authenticated_user, authenticated_roles,
        delay_until_epoch_ms, application_name
    ) VALUES (
        v_workflow_id, v_status,
        workflow_name, class_name, config_name,
        queue_name, deduplication_id, v_priority, queue_partition_key,
        app_version,
        v_now, v_now, v_recovery_attempts,
        timeout_ms, deadline_epoch_ms,
        NULL, v_owner_xid, 'portable_json',
        authenticated_user, authenticated_roles,
        delay_until_epoch_ms, application_name
    )
    ON CONFLICT (workflow_uuid)
    DO UPDATE SET
        updated_at = EXCLUDED.updated_at;
    INSERT INTO "dbos".workflow_input (
        workflow_uuid, inputs, retention_timestamp
    ) VALUES (
        v_workflow_id, v_serialized_inputs, v_now
    )
    ON CONFLICT (workflow_uuid) DO NOTHING;
    RETURN v_workflow_id;
EXCEPTION
    WHEN unique_violation THEN
        RAISE EXCEPTION 'DBOS queue duplicated'
            USING DETAIL = format('Workflow %s with queue %s and deduplication ID %s already exists', v_workflow_id, queue_name, deduplication_id),
                ERRCODE = 'unique_violation';
END;
$$;
CREATE FUNCTION dbos.notifications_function() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    payload text := NEW.destination_uuid || '::' || NEW.topic;
BEGIN
    PERFORM pg_notify('dbos_notifications_channel', payload);
    RETURN NEW;
END;
$$;
CREATE FUNCTION dbos.send_message(destination_id text, message json, topic text DEFAULT NULL::text, message_id text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    v_topic TEXT := COALESCE(topic, '__null__topic__');
    v_message_id TEXT := COALESCE(message_id, gen_random_uuid()::TEXT);
BEGIN
    INSERT INTO "dbos".notifications (
        destination_uuid, topic, message, message_uuid, serialization
    ) VALUES (
        destination_id, v_topic, message, v_message_id, 'portable_json'
    )
    ON CONFLICT (message_uuid) DO NOTHING;
EXCEPTION
    WHEN foreign_key_violation THEN
        RAISE EXCEPTION 'DBOS non-existent workflow'
            USING DETAIL = format('Destination workflow %s does not exist', destination_id),
                ERRCODE = 'foreign_key_violation';
END;
$$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE dbos.application_versions (
    version_id text NOT NULL,
    version_name text NOT NULL,
    version_timestamp bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    created_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    application_name text
);
CREATE TABLE dbos.dbos_migrations (
    version bigint NOT NULL
);
CREATE TABLE dbos.event_dispatch_kv (
    service_name text NOT NULL,
    workflow_fn_name text NOT NULL,
    key text NOT NULL,
    value text,
    update_seq numeric(38,0),
    update_time numeric(38,15)
);
CREATE TABLE dbos.notifications (
    message_uuid text DEFAULT gen_random_uuid() NOT NULL,
    destination_uuid text NOT NULL,
    topic text,
    message text NOT NULL,
    created_at_epoch_ms bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    serialization text,
    consumed boolean DEFAULT false NOT NULL,
    consumed_by_function_id integer
);
CREATE TABLE dbos.operation_outputs (
    workflow_uuid text NOT NULL,
    function_id integer NOT NULL,
    function_name text DEFAULT ''::text NOT NULL,
    output text,
    error text,
    child_workflow_id text,
    started_at_epoch_ms bigint,
    completed_at_epoch_ms bigint,
    serialization text,
    application_name text,
    retention_timestamp bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL
);
CREATE TABLE dbos.queues (
    queue_id text DEFAULT (gen_random_uuid())::text NOT NULL,
    name text NOT NULL,
    concurrency integer,
    worker_concurrency integer,
    rate_limit_max integer,
    rate_limit_period_sec double precision,
    priority_enabled boolean DEFAULT false NOT NULL,
    partition_queue boolean DEFAULT false NOT NULL,
    polling_interval_sec double precision DEFAULT 1.0 NOT NULL,
    created_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    updated_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    application_name text,
    partition_concurrency integer,
    partition_worker_concurrency integer,
    partition_rate_limit_max integer,
    partition_rate_limit_period_sec double precision
);
CREATE TABLE dbos.streams (
    workflow_uuid text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    "offset" integer NOT NULL,
    function_id integer DEFAULT 0 NOT NULL,
    serialization text
);
CREATE TABLE dbos.workflow_events (
    workflow_uuid text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    serialization text
);
CREATE TABLE dbos.workflow_events_history (
    workflow_uuid text NOT NULL,
    function_id integer NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    serialization text
);
CREATE TABLE dbos.workflow_input (
    workflow_uuid text NOT NULL,
    inputs text,
    retention_timestamp bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL
);
CREATE TABLE dbos.workflow_output (
    workflow_uuid text NOT NULL,
    output text,
    error text,
    retention_timestamp bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL
);
CREATE TABLE dbos.workflow_schedules (
    schedule_id text NOT NULL,
    schedule_name text NOT NULL,
    workflow_name text NOT NULL,
    workflow_class_name text,
    schedule text NOT NULL,
    status text DEFAULT 'ACTIVE'::text NOT NULL,
    context text NOT NULL,
    last_fired_at text,
    automatic_backfill boolean DEFAULT false NOT NULL,
    cron_timezone text,
    queue_name text,
    application_name text
);
CREATE TABLE dbos.workflow_status (
    workflow_uuid text NOT NULL,
    status text,
    name text,
    authenticated_user text,
    assumed_role text,
    authenticated_roles text,
    request text,
    output text,
    error text,
    executor_id text,
    created_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    updated_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    application_version text,
    application_id text,
    class_name character varying(255) DEFAULT NULL::character varying,
    config_name character varying(255) DEFAULT NULL::character varying,
    recovery_attempts bigint DEFAULT 0,
    queue_name text,
    workflow_timeout_ms bigint,
    workflow_deadline_epoch_ms bigint,
    inputs text,
    started_at_epoch_ms bigint,
    deduplication_id text,
    priority integer DEFAULT 0 NOT NULL,
    queue_partition_key text,
    forked_from text,
    owner_xid text,
    parent_workflow_id text,
    serialization text,
    delay_until_epoch_ms bigint,
    was_forked_from boolean DEFAULT false NOT NULL,
    rate_limited boolean DEFAULT false NOT NULL,
    completed_at bigint,
    attributes jsonb,
    schedule_name text,
    debounce_deadline_epoch_ms bigint,
    is_debounced boolean DEFAULT false NOT NULL,
    application_name text,
    creator_xid text
);
CREATE TABLE public.allotment (
    name text NOT NULL COLLATE pg_catalog."C",
    worker_id text NOT NULL COLLATE pg_catalog."C",
    amount bigint NOT NULL,
    until double precision NOT NULL
);
CREATE TABLE public.anchor (
    place text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    hash text NOT NULL,
    at double precision NOT NULL,
    locked_until double precision
);
CREATE TABLE public.autoscale_limit (
    name text NOT NULL,
    value double precision NOT NULL
);
CREATE TABLE public.batch (
    transfer_id text NOT NULL COLLATE pg_catalog."C",
    number integer NOT NULL,
    state text NOT NULL,
    objects integer NOT NULL,
    bytes bigint NOT NULL,
    done integer NOT NULL,
    skipped integer NOT NULL,
    failed integer NOT NULL,
    cancelled integer NOT NULL,
    bytes_done bigint NOT NULL,
    runs integer NOT NULL,
    barren_runs integer NOT NULL,
    requests bigint DEFAULT '0'::bigint NOT NULL,
    started_at double precision,
    ended_at double precision
)
WITH (fillfactor='50');
CREATE TABLE public.chart (
    transfer_id text NOT NULL COLLATE pg_catalog."C",
    since double precision NOT NULL,
    until double precision NOT NULL,
    points text NOT NULL
);
CREATE TABLE public.delivery_mail (
    id text NOT NULL COLLATE pg_catalog."C",
    share_link_id text NOT NULL COLLATE pg_catalog."C",
    transfer_id text NOT NULL COLLATE pg_catalog."C",
    address text NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    created_at double precision NOT NULL
);
CREATE TABLE public.endpoint_fact (
    endpoint text NOT NULL COLLATE pg_catalog."C",
    bucket text NOT NULL COLLATE pg_catalog."C",
    identity text NOT NULL,
    answers text NOT NULL,
    learned text NOT NULL,
    newest_at double precision NOT NULL
);
CREATE TABLE public.engine_sample (
    executor_id text NOT NULL COLLATE pg_catalog."C",
    at double precision NOT NULL,
    bytes bigint NOT NULL,
    requests bigint NOT NULL,
    retries bigint NOT NULL,
    throttled bigint NOT NULL,
    hedges bigint NOT NULL,
    waited_ms bigint NOT NULL,
    busy_ms bigint NOT NULL
);
CREATE TABLE public.event (
    transfer_id text NOT NULL COLLATE pg_catalog."C",
    number integer NOT NULL,
    at double precision NOT NULL,
    kind text NOT NULL,
    actor text NOT NULL,
    data text NOT NULL,
    previous text NOT NULL,
    hash text NOT NULL,
    key_id text
);
CREATE TABLE public.ledger (
    number bigint NOT NULL,
    at double precision NOT NULL,
    transfer_id text NOT NULL COLLATE pg_catalog."C",
    event_number integer NOT NULL,
    kind text NOT NULL,
    event_hash text NOT NULL,
    key_id text,
    previous text NOT NULL,
    hash text NOT NULL
);
CREATE TABLE public.notice (
    subject_kind text NOT NULL,
    subject_id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    episode bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    created_at double precision NOT NULL,
    next_at double precision NOT NULL,
    sent_at double precision,
    error text
);
CREATE TABLE public.object (
    id bigint NOT NULL,
    transfer_id text NOT NULL COLLATE pg_catalog."C",
    batch_number integer NOT NULL,
    source_key text NOT NULL COLLATE pg_catalog."C",
    version_id text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    source_upload_id text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    member_place text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    upload_number integer DEFAULT 0 NOT NULL,
    target_key text NOT NULL COLLATE pg_catalog."C",
    size bigint NOT NULL,
    etag text NOT NULL,
    last_modified double precision NOT NULL,
    storage_class text,
    written_by text,
    state text NOT NULL,
    attempts integer NOT NULL,
    retries integer NOT NULL,
    method text,
    started_at double precision,
    ended_at double precision,
    upload_id text,
    part_size bigint,
    target_etag text,
    target_version_id text,
    checksum_algorithm text,
    checksum text,
    verified text,
    not_carried text,
    error_class text,
    error_code text,
    error_operation text,
    error_message text,
    file_changed double precision
)
WITH (fillfactor='40');
CREATE SEQUENCE public.object_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.object_id_seq OWNED BY public.object.id;
CREATE TABLE public.report_ticket (
    digest text NOT NULL COLLATE pg_catalog."C",
    ends_at double precision NOT NULL,
    share_link_id text COLLATE pg_catalog."C",
    transfer_id text NOT NULL COLLATE pg_catalog."C",
    format text NOT NULL,
    price text,
    page bigint NOT NULL
);
CREATE TABLE public.sample (
    transfer_id text NOT NULL COLLATE pg_catalog."C",
    executor_id text NOT NULL COLLATE pg_catalog."C",
    at double precision NOT NULL,
    bytes bigint NOT NULL,
    objects bigint NOT NULL,
    requests bigint NOT NULL,
    throttled bigint NOT NULL
);
CREATE TABLE public.schedule (
    id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    cron text NOT NULL,
    timezone text NOT NULL,
    spec text NOT NULL,
    priority integer NOT NULL,
    state text NOT NULL,
    active_since double precision NOT NULL,
    revision integer NOT NULL,
    created_at double precision NOT NULL,
    created_by text NOT NULL,
    labels text
);
CREATE TABLE public.schedule_event (
    schedule_id text NOT NULL COLLATE pg_catalog."C",
    number integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    at double precision NOT NULL,
    kind text NOT NULL,
    actor text NOT NULL,
    data text NOT NULL,
    previous text NOT NULL,
    hash text NOT NULL,
    key_id text
);
CREATE TABLE public.schedule_run (
    id text NOT NULL COLLATE pg_catalog."C",
    schedule_id text NOT NULL COLLATE pg_catalog."C",
    due_at double precision NOT NULL,
    at double precision NOT NULL,
    outcome text NOT NULL,
    transfer_id text COLLATE pg_catalog."C",
    message text
);
CREATE TABLE public.schema_note (
    about text NOT NULL,
    comment text NOT NULL
);
CREATE TABLE public.seal (
    transfer_id text NOT NULL COLLATE pg_catalog."C",
    number integer NOT NULL,
    objects integer NOT NULL,
    root text NOT NULL,
    key_id text,
    mac text NOT NULL,
    leaves bytea NOT NULL,
    archive bytea
);
CREATE TABLE public.tally (
    transfer_id text NOT NULL COLLATE pg_catalog."C",
    objects bigint NOT NULL,
    bytes bigint NOT NULL,
    done bigint NOT NULL,
    skipped bigint NOT NULL,
    failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    bytes_done bigint NOT NULL
)
WITH (fillfactor='20');
CREATE TABLE public.transfer (
    id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    spec text NOT NULL,
    created_at double precision NOT NULL,
    created_by text NOT NULL,
    started_at double precision,
    planned_at double precision,
    ended_at double precision,
    idempotency_key text COLLATE pg_catalog."C",
    error_code text,
    error_message text,
    target_absent boolean,
    attended_by text,
    needs text,
    lane text,
    waits_for text,
    turn bigint,
    blocked_by text COLLATE pg_catalog."C",
    submission text,
    target_place text,
    target_prefix text COLLATE pg_catalog."C",
    source_uri text COLLATE pg_catalog."C",
    target_uri text COLLATE pg_catalog."C",
    receipt_digest text,
    pruned_at double precision,
    retry_of text COLLATE pg_catalog."C",
    priority integer DEFAULT 0 NOT NULL,
    max_requests integer,
    max_bandwidth text,
    tpslimit integer,
    name text,
    labels text
);
CREATE SEQUENCE public.transfer_turn
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE VIEW public.seqferry_autoscale AS
 WITH limits AS (
         SELECT COALESCE(max(
                CASE
                    WHEN (autoscale_limit.name = 'minimum'::text) THEN autoscale_limit.value
                    ELSE NULL::double precision
                END), (0)::double precision) AS minimum,
            COALESCE(max(
                CASE
                    WHEN (autoscale_limit.name = 'maximum'::text) THEN autoscale_limit.value
                    ELSE NULL::double precision
                END), (20)::double precision) AS maximum,
            ((60.0)::double precision * COALESCE(max(
                CASE
                    WHEN (autoscale_limit.name = 'drain_minutes'::text) THEN autoscale_limit.value
                    ELSE NULL::double precision
                END), (15)::double precision)) AS drain_seconds
           FROM public.autoscale_limit
        ), open_transfer AS (
         SELECT transfer.id,
            transfer.planned_at
           FROM public.transfer
          WHERE ((transfer.ended_at IS NULL) AND (transfer.blocked_by IS NULL) AND (transfer.state <> 'paused'::text))
        ), backlog AS (
         SELECT count(*) AS transfers,
            (count(*) - count(open_transfer.planned_at)) AS unplanned,
            (COALESCE(sum((tally.bytes - tally.bytes_done)), (0)::numeric))::double precision AS bytes,
            (COALESCE(sum(((((tally.objects - tally.done) - tally.skipped) - tally.failed) - tally.cancelled)), (0)::numeric))::double precision AS objects
           FROM (open_transfer
             LEFT JOIN public.tally ON ((tally.transfer_id = open_transfer.id)))
        ), open_batch AS (
         SELECT count(*) AS batches
           FROM (public.batch
             JOIN open_transfer ON ((open_transfer.id = batch.transfer_id)))
          WHERE (batch.state = ANY (ARRAY['queued'::text, 'active'::text]))
        ), counters AS (
         SELECT sample.executor_id,
            sample.transfer_id,
            (floor((sample.at / (60.0)::double precision)))::bigint AS minute,
            max(sample.at) AS at,
            max(sample.bytes) AS bytes,
            max(sample.requests) AS requests
           FROM public.sample
          WHERE (sample.at > ((EXTRACT(epoch FROM clock_timestamp()) - 86400.0))::double precision)
          GROUP BY sample.executor_id, sample.transfer_id, ((floor((sample.at / (60.0)::double precision)))::bigint)
        ), growth AS (
         SELECT counters.executor_id,
            counters.minute,
            (counters.at - lag(counters.at) OVER earlier) AS seconds,
            (counters.bytes - lag(counters.bytes) OVER earlier) AS bytes,
            (counters.requests - lag(counters.requests) OVER earlier) AS requests,
            (counters.minute - lag(counters.minute) OVER earlier) AS minutes
           FROM counters
          WINDOW earlier AS (PARTITION BY counters.executor_id, counters.transfer_id ORDER BY counters.minute)
        ), worker_minute AS (
         SELECT growth.executor_id,
            growth.minute,
            sum(((growth.bytes)::double precision / growth.seconds)) AS bytes,
            sum(((growth.requests)::double precision / growth.seconds)) AS requests
           FROM growth
          WHERE ((growth.minutes = 1) AND ((growth.seconds >= (30.0)::double precision) AND (growth.seconds <= (90.0)::double precision)) AND (growth.bytes >= 0) AND (growth.requests >= 0))
          GROUP BY growth.executor_id, growth.minute
        ), fleet_minute AS (
         SELECT worker_minute.minute,
            count(*) AS workers,
            sum(worker_minute.bytes) AS bytes,
            sum(worker_minute.requests) AS requests,
            max(worker_minute.bytes) AS worker_bytes,
            max(worker_minute.requests) AS worker_requests
           FROM worker_minute
          GROUP BY worker_minute.minute
        ), alone AS (
         SELECT
                CASE
                    WHEN (COALESCE(max(fleet_minute.worker_bytes), (0)::double precision) > (0)::double precision) THEN GREATEST(max(fleet_minute.worker_bytes), (67108864.0)::double precision)
                    ELSE (419430400.0)::double precision
                END AS bytes,
                CASE
                    WHEN (COALESCE(max(fleet_minute.worker_requests), (0)::double precision) > (0)::double precision) THEN GREATEST(max(fleet_minute.worker_requests), (200.0)::double precision)
                    ELSE (1000.0)::double precision
                END AS requests
           FROM fleet_minute
        ), fleet AS (
         SELECT fleet_minute.workers,
            ((fleet_minute.bytes / alone.bytes) + (fleet_minute.requests / alone.requests)) AS worth
           FROM (fleet_minute
             CROSS JOIN alone)
          WHERE ((fleet_minute.minute >= (floor(((EXTRACT(epoch FROM clock_timestamp()) - 3600.0) / 60.0)))::bigint) AND (fleet_minute.minute < (floor((EXTRACT(epoch FROM clock_timestamp()) / 60.0)))::bigint))
        ), ceiling AS (
         SELECT count(*) AS minutes,
            max(found.best) AS worth
           FROM (fleet
             CROSS JOIN ( SELECT max(fleet_1.worth) AS best
                   FROM fleet fleet_1) found)
          WHERE ((fleet.workers > 1) AND ((((fleet.workers)::numeric * 0.8))::double precision > found.best))
        ), need AS (
         SELECT backlog.transfers,
            backlog.bytes AS backlog_bytes,
            (backlog.objects + (backlog.bytes / (134217728.0)::double precision)) AS backlog_requests,
            (open_batch.batches + backlog.unplanned) AS open_batches,
            alone.bytes AS bytes_per_second_alone,
            alone.requests AS requests_per_second_alone,
                CASE
                    WHEN (ceiling.minutes >= 3) THEN GREATEST((1)::double precision, ceil(ceiling.worth))
                    ELSE NULL::double precision
                END AS knee,
            limits.minimum,
            limits.maximum,
            limits.drain_seconds
           FROM ((((backlog
             CROSS JOIN open_batch)
             CROSS JOIN alone)
             CROSS JOIN ceiling)
             CROSS JOIN limits)
        ), wish AS (
         SELECT need.transfers,
            need.backlog_bytes,
            need.backlog_requests,
            need.open_batches,
            need.bytes_per_second_alone,
            need.requests_per_second_alone,
            need.knee,
            need.minimum,
            need.maximum,
            need.drain_seconds,
                CASE
                    WHEN (need.transfers = 0) THEN (0)::double precision
                    ELSE LEAST(GREATEST((1)::double precision, ceil((need.backlog_bytes / (need.bytes_per_second_alone * need.drain_seconds))), ceil((need.backlog_requests / (need.requests_per_second_alone * need.drain_seconds)))), (GREATEST((1)::numeric, ceil(((need.open_batches)::numeric / 8.0))))::double precision, COALESCE(need.knee, need.maximum))
                END AS workers
           FROM need
        )
 SELECT (LEAST(GREATEST(wish.workers, wish.minimum), wish.maximum))::integer AS wanted_workers,
    wish.transfers,
    (wish.backlog_bytes)::bigint AS backlog_bytes,
    (ceil(wish.backlog_requests))::bigint AS backlog_requests,
    wish.open_batches,
    wish.bytes_per_second_alone,
    wish.requests_per_second_alone,
    (wish.knee)::integer AS knee,
    (wish.minimum)::integer AS minimum,
    (wish.maximum)::integer AS maximum,
    wish.drain_seconds
   FROM wish;
CREATE TABLE public.seqferry_schema (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.share_link (
    id text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL,
    transfer_id text COLLATE pg_catalog."C",
    label text,
    created_at double precision NOT NULL,
    created_by text NOT NULL,
    expires_at double precision NOT NULL,
    revoked_at double precision,
    revoked_by text
);
CREATE TABLE public.share_link_event (
    share_link_id text NOT NULL COLLATE pg_catalog."C",
    number integer NOT NULL,
    at double precision NOT NULL,
    kind text NOT NULL,
    actor text NOT NULL,
    data text NOT NULL,
    previous text NOT NULL,
    hash text NOT NULL,
    key_id text
);
CREATE TABLE public.submission_key (
    key text NOT NULL COLLATE pg_catalog."C",
    transfer_id text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.token (
    digest text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    role text NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision,
    removed_at double precision
);
CREATE TABLE public.worker (
    id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    schema_head text NOT NULL,
    shape text NOT NULL,
    since double precision NOT NULL,
    seen_at double precision NOT NULL,
    beats bigint NOT NULL,
    gone_at double precision,
    drain_at double precision,
    lanes text NOT NULL,
    limits text NOT NULL,
    resident bigint,
    transfers integer NOT NULL,
    in_flight integer NOT NULL,
    windows text NOT NULL,
    facts text NOT NULL
);
CREATE TABLE public.worker_live (
    transfer_id text NOT NULL COLLATE pg_catalog."C",
    executor_id text NOT NULL COLLATE pg_catalog."C",
    at double precision NOT NULL,
    data text NOT NULL
);
ALTER TABLE ONLY public.object ALTER COLUMN id SET DEFAULT nextval('public.object_id_seq'::regclass);
INSERT INTO dbos.application_versions VALUES
	('9af81c72-33d5-4725-9e52-ead4be5dcf0a', '1', 1795942639040, 1795942639040, 'seqferry');
INSERT INTO dbos.dbos_migrations VALUES
	(125);
INSERT INTO dbos.operation_outputs VALUES
	('19952fcc-8981-4859-aeb2-e2f381057a98', 1, 'plan', 'null', NULL, NULL, 1795942639893, 1795942640925, 'portable_json', 'seqferry', 1795942640927);
INSERT INTO dbos.queues VALUES
	('4c93cc7f-901d-4617-8280-dc50e4b52b7a', 'transfers.ce4408271ae2', NULL, 64, NULL, NULL, true, false, 0.25, 1795942638991, 1795942638964, 'seqferry', NULL, NULL, NULL, NULL),
	('8eb967ad-fb5f-4c3e-946d-69d095b4dfb6', 'batches.ce4408271ae2', NULL, 8, NULL, NULL, true, false, 0.25, 1795942639012, 1795942639005, 'seqferry', NULL, NULL, NULL, NULL),
	('73c8cc7b-1a8f-4369-95f8-da9b06d0007b', 'schedules', NULL, 4, NULL, NULL, true, false, 0.25, 1795942639015, 1795942639014, 'seqferry', NULL, NULL, NULL, NULL);
INSERT INTO dbos.workflow_input VALUES
	('19952fcc-8981-4859-aeb2-e2f381057a98', '{"namedArgs":{},"positionalArgs":["19952fcc-8981-4859-aeb2-e2f381057a98"]}', 1795942636163),
	('19952fcc-8981-4859-aeb2-e2f381057a98:b000000', '{"namedArgs":{},"positionalArgs":["19952fcc-8981-4859-aeb2-e2f381057a98",0]}', 1795942640890),
	('caf1b3f3-7713-454f-8e64-33b8b20d50ec', '{"namedArgs":{},"positionalArgs":["caf1b3f3-7713-454f-8e64-33b8b20d50ec"]}', 1795942644898),
	('25cb61b9-93f2-4b13-bab0-4b3441393ae9', '{"namedArgs":{},"positionalArgs":["25cb61b9-93f2-4b13-bab0-4b3441393ae9"]}', 1795942645892);
INSERT INTO dbos.workflow_status VALUES
	('19952fcc-8981-4859-aeb2-e2f381057a98', 'PENDING', 'transfer', NULL, NULL, NULL, NULL, NULL, NULL, 'host-13222-e5faf18b@821cd71ebe6e.13222.4863513', 1795942636163, 1795942639400, '1', NULL, NULL, NULL, 1, 'transfers.ce4408271ae2', NULL, NULL, NULL, 1795942639400, NULL, 641, NULL, NULL, '4ac38849-3aa0-4388-9449-5c81e2835ecc', NULL, 'portable_json', NULL, false, false, NULL, 'null', NULL, NULL, false, 'seqferry', 'ef4393eb-7674-493a-97b4-915d406841b6'),
	('19952fcc-8981-4859-aeb2-e2f381057a98:b000000', 'PENDING', 'batch', NULL, NULL, NULL, NULL, NULL, NULL, 'host-13222-e5faf18b@821cd71ebe6e.13222.4863513', 1795942640890, 1795942640840, '1', NULL, NULL, NULL, 1, 'batches.ce4408271ae2', NULL, NULL, NULL, 1795942640840, NULL, 681, NULL, NULL, '11f87200-b109-452d-931e-d7c64efc4e3b', NULL, 'portable_json', NULL, false, false, NULL, 'null', NULL, NULL, false, 'seqferry', '78761507-dd4f-4cff-86f5-55a74cbe881b'),
	('caf1b3f3-7713-454f-8e64-33b8b20d50ec', 'ENQUEUED', 'transfer', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795942644898, 1795942644898, '1', NULL, NULL, NULL, 0, 'transfers.paused', NULL, NULL, NULL, NULL, NULL, 641, NULL, NULL, NULL, NULL, 'portable_json', NULL, false, false, NULL, 'null', NULL, NULL, false, 'seqferry', 'ed38ee46-ba8a-4c4c-ac5d-0787131c5411'),
	('25cb61b9-93f2-4b13-bab0-4b3441393ae9', 'ENQUEUED', 'transfer', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795942645892, 1795942645892, '1', NULL, NULL, NULL, 0, 'transfers.ce4408271ae2', NULL, NULL, NULL, NULL, NULL, 641, NULL, NULL, NULL, NULL, 'portable_json', NULL, false, false, NULL, 'null', NULL, NULL, false, 'seqferry', 'a9938bca-91a9-4286-962b-45e39a8b4f95');
INSERT INTO public.batch VALUES
	('19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'active', 30, 30000, 29, 0, 0, 0, 29000, 1, 0, 0, 1795942641.0115252, NULL);
INSERT INTO public.engine_sample VALUES
	('host-13222-e5faf18b@821cd71ebe6e.13222.4863513', 1795942641.421342, 1010, 51, 0, 0, 0, 0, 760);
INSERT INTO public.event VALUES
	('19952fcc-8981-4859-aeb2-e2f381057a98', 1, 1795942636.1677942, 'submitted', 'ada', '{"sealed": {"labels": null, "max_bandwidth": null, "max_requests": null, "name": null, "priority": 0, "retry_of": null, "source_uri": "s3://the-source/run/", "target_uri": "s3://the-target/run/", "tpslimit": null}, "spec": {"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "strip": "run/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "version": 2}}', '0000000000000000000000000000000000000000000000000000000000000000', '003efa1273ffee195603324da667f10f7b154cced39a7f88ecc815f256c5024d', '37812dec3e8e61c7'),
	('19952fcc-8981-4859-aeb2-e2f381057a98', 2, 1795942639.9007337, 'started', 'worker host-13222-e5faf18b', '{}', '003efa1273ffee195603324da667f10f7b154cced39a7f88ecc815f256c5024d', '09cf23e4ff41040e7b6aa56fd1bb9ea70329eaeb7d0d7c9be751bc416011513f', '37812dec3e8e61c7'),
	('19952fcc-8981-4859-aeb2-e2f381057a98', 3, 1795942640.9108853, 'planned', 'worker host-13222-e5faf18b', '{"bytes": 30000, "objects": 30}', '09cf23e4ff41040e7b6aa56fd1bb9ea70329eaeb7d0d7c9be751bc416011513f', '2e43527bacd7c6c28ac8c032d35631bf50c76187fed69815f2200eb08163b874', '37812dec3e8e61c7'),
	('caf1b3f3-7713-454f-8e64-33b8b20d50ec', 1, 1795942644.900874, 'submitted', 'ada', '{"sealed": {"labels": null, "max_bandwidth": null, "max_requests": null, "name": null, "priority": 0, "retry_of": null, "source_uri": "s3://the-source/paused/", "target_uri": "s3://the-target/paused/", "tpslimit": null}, "spec": {"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "strip": "paused/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "version": 2}}', '0000000000000000000000000000000000000000000000000000000000000000', 'aed48ce246df6bd54bc74b5b0dd5d5e49ee9453b483a9c6ca3190693f386e801', '37812dec3e8e61c7'),
	('caf1b3f3-7713-454f-8e64-33b8b20d50ec', 2, 1795942645.15251, 'paused', 'ada', '{}', 'aed48ce246df6bd54bc74b5b0dd5d5e49ee9453b483a9c6ca3190693f386e801', 'fac421cdfe014db671e97ec5622693f53d6f988d8b9aa32c6357260d379d2356', '37812dec3e8e61c7'),
	('25cb61b9-93f2-4b13-bab0-4b3441393ae9', 1, 1795942646.0997849, 'submitted', 'ada', '{"sealed": {"labels": null, "max_bandwidth": null, "max_requests": null, "name": null, "priority": 0, "retry_of": null, "source_uri": "s3://the-source/queued/", "target_uri": "s3://the-target/queued/", "tpslimit": null}, "spec": {"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "strip": "queued/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "version": 2}}', '0000000000000000000000000000000000000000000000000000000000000000', '3b2f578a814521854f5a9711d1b35dd66b21c9ca10fe558e86c3ad2416b075a3', '37812dec3e8e61c7');
INSERT INTO public.ledger VALUES
	(1, 1795942636.1677942, '19952fcc-8981-4859-aeb2-e2f381057a98', 1, 'submitted', '003efa1273ffee195603324da667f10f7b154cced39a7f88ecc815f256c5024d', '37812dec3e8e61c7', '0000000000000000000000000000000000000000000000000000000000000000', '28d1a951c6cbd92d7d548de7f9750c9136cc108503cce86026c5d04980973db2'),
	(2, 1795942644.900874, 'caf1b3f3-7713-454f-8e64-33b8b20d50ec', 1, 'submitted', 'aed48ce246df6bd54bc74b5b0dd5d5e49ee9453b483a9c6ca3190693f386e801', '37812dec3e8e61c7', '28d1a951c6cbd92d7d548de7f9750c9136cc108503cce86026c5d04980973db2', '21a6f925347dcf833d4cfe3519b7f53255c64b27b918452065f3914615390795'),
	(3, 1795942646.0997849, '25cb61b9-93f2-4b13-bab0-4b3441393ae9', 1, 'submitted', '3b2f578a814521854f5a9711d1b35dd66b21c9ca10fe558e86c3ad2416b075a3', '37812dec3e8e61c7', '21a6f925347dcf833d4cfe3519b7f53255c64b27b918452065f3914615390795', '72d9fc66e4ca63c9c9638e988f81b57ec206b55d2d7e6880219fefc479bf6241');
INSERT INTO public.object VALUES
	(12, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s011', '', '', '', 0, 'run/s011', 1000, '92749faf21e2523a14bdac810370e25c', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0337133, 1795942642.955666, NULL, NULL, '92749faf21e2523a14bdac810370e25c', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(6, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s005', '', '', '', 0, 'run/s005', 1000, 'd7f32a0e260c266cfd2e71df104f90cd', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0334496, 1795942642.9564695, NULL, NULL, 'd7f32a0e260c266cfd2e71df104f90cd', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(14, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s013', '', '', '', 0, 'run/s013', 1000, '529a79c9899739651e84f1fa3afb919d', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0338352, 1795942642.9565942, NULL, NULL, '529a79c9899739651e84f1fa3afb919d', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(8, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s007', '', '', '', 0, 'run/s007', 1000, 'c785f46feed7afd0f21d6b15136c859c', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0335393, 1795942643.0649078, NULL, NULL, 'c785f46feed7afd0f21d6b15136c859c', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(13, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s012', '', '', '', 0, 'run/s012', 1000, 'e87a53d05322d92c5b3a6bfc623bd37a', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0337908, 1795942643.0649824, NULL, NULL, 'e87a53d05322d92c5b3a6bfc623bd37a', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(5, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s004', '', '', '', 0, 'run/s004', 1000, '149591484b572f06655c09d225d56a77', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0334089, 1795942643.067095, NULL, NULL, '149591484b572f06655c09d225d56a77', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(11, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s010', '', '', '', 0, 'run/s010', 1000, '5fd121114ca8eb0d215df83d67f3d0cb', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.033672, 1795942643.067145, NULL, NULL, '5fd121114ca8eb0d215df83d67f3d0cb', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(1, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s000', '', '', '', 0, 'run/s000', 1000, '742ddb9d181b57fcacaa72438402aee4', 1795942633, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0331635, 1795942643.067183, NULL, NULL, '742ddb9d181b57fcacaa72438402aee4', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(7, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s006', '', '', '', 0, 'run/s006', 1000, '498c4393c7c61f899b7c88829fd67c5c', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0334985, 1795942643.0676067, NULL, NULL, '498c4393c7c61f899b7c88829fd67c5c', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(3, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s002', '', '', '', 0, 'run/s002', 1000, 'e1e06e2b080235b7081ad31a7a5ab4a0', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0333183, 1795942643.0676425, NULL, NULL, 'e1e06e2b080235b7081ad31a7a5ab4a0', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(2, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s001', '', '', '', 0, 'run/s001', 1000, 'c8d1d963be2de1688155c0d308967e5e', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0332687, 1795942643.0676687, NULL, NULL, 'c8d1d963be2de1688155c0d308967e5e', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(4, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s003', '', '', '', 0, 'run/s003', 1000, '2d8a5f494cfe4ffe32fad831ede47515', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.033364, 1795942643.06848, NULL, NULL, '2d8a5f494cfe4ffe32fad831ede47515', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(10, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s009', '', '', '', 0, 'run/s009', 1000, 'd0e1cab941ed40b9be252f02244aae80', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0336287, 1795942643.0685163, NULL, NULL, 'd0e1cab941ed40b9be252f02244aae80', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(9, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s008', '', '', '', 0, 'run/s008', 1000, '1c193593e83839fbf503e0703d3e5dbb', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.033579, 1795942643.0685441, NULL, NULL, '1c193593e83839fbf503e0703d3e5dbb', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(15, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s014', '', '', '', 0, 'run/s014', 1000, '265d2657cd8ed41d0044be243260795f', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.033895, 1795942643.0690625, NULL, NULL, '265d2657cd8ed41d0044be243260795f', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(30, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s029', '', '', '', 0, 'run/s029', 1000, '739bad3e7110283ca62dd8beecce796f', 1795942633, 'STANDARD', NULL, 'pending', 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(28, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s027', '', '', '', 0, 'run/s027', 1000, '9c1e7c033eb221418b451554bfce1eed', 1795942633, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0344589, 1795942641.2869537, NULL, NULL, '9c1e7c033eb221418b451554bfce1eed', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(21, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s020', '', '', '', 0, 'run/s020', 1000, '9e29fb627ea3b59583e46eac90d1e722', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0341587, 1795942642.9555898, NULL, NULL, '9e29fb627ea3b59583e46eac90d1e722', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(26, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s025', '', '', '', 0, 'run/s025', 1000, 'd85e2429d9b97220cd883d6e4dae1e5e', 1795942633, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0343747, 1795942642.9565227, NULL, NULL, 'd85e2429d9b97220cd883d6e4dae1e5e', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(17, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s016', '', '', '', 0, 'run/s016', 1000, 'fe0338ab18d549f1bc178dc376c122da', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0339825, 1795942642.9565592, NULL, NULL, 'fe0338ab18d549f1bc178dc376c122da', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(18, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s017', '', '', '', 0, 'run/s017', 1000, '6c80a10b0a9d694429de8722eabea0b1', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0340333, 1795942642.9566278, NULL, NULL, '6c80a10b0a9d694429de8722eabea0b1', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(16, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s015', '', '', '', 0, 'run/s015', 1000, '84b14ba2b0e6a71e1d50307a003e7919', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0339415, 1795942642.9566612, NULL, NULL, '84b14ba2b0e6a71e1d50307a003e7919', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(20, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s019', '', '', '', 0, 'run/s019', 1000, '82c4ddeb98530d856f64cd09e3be9545', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0341141, 1795942643.0650253, NULL, NULL, '82c4ddeb98530d856f64cd09e3be9545', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(19, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s018', '', '', '', 0, 'run/s018', 1000, '475a23029b8faf879e20e93da327de30', 1795942632, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0340748, 1795942643.0697305, NULL, NULL, '475a23029b8faf879e20e93da327de30', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(22, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s021', '', '', '', 0, 'run/s021', 1000, 'eb09c4d5ff5c369acf57c51309e66fe2', 1795942633, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0342028, 1795942643.0702534, NULL, NULL, 'eb09c4d5ff5c369acf57c51309e66fe2', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(23, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s022', '', '', '', 0, 'run/s022', 1000, '83f508f81049eb3d2d00c6afe15a8e01', 1795942633, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0342457, 1795942643.070847, NULL, NULL, '83f508f81049eb3d2d00c6afe15a8e01', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(24, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s023', '', '', '', 0, 'run/s023', 1000, '7d8e7ef94e30de25522e16c2f6b1cbf0', 1795942633, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0342898, 1795942643.074184, NULL, NULL, '7d8e7ef94e30de25522e16c2f6b1cbf0', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(29, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s028', '', '', '', 0, 'run/s028', 1000, '13ddfa059e71c1dba2f21199678819b2', 1795942633, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.034505, 1795942643.0761304, NULL, NULL, '13ddfa059e71c1dba2f21199678819b2', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(25, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s024', '', '', '', 0, 'run/s024', 1000, '3472dbe474a10e985e6a3838e97df820', 1795942633, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.034332, 1795942643.0761886, NULL, NULL, '3472dbe474a10e985e6a3838e97df820', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(27, '19952fcc-8981-4859-aeb2-e2f381057a98', 0, 'run/s026', '', '', '', 0, 'run/s026', 1000, 'c5abc4e7336acd03a168a6904038fdd2', 1795942633, 'STANDARD', NULL, 'done', 1, 0, 'copy', 1795942641.0344174, 1795942643.0762897, NULL, NULL, 'c5abc4e7336acd03a168a6904038fdd2', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.sample VALUES
	('19952fcc-8981-4859-aeb2-e2f381057a98', 'host-13222-e5faf18b@821cd71ebe6e.13222.4863513', 1795942641.419059, 1000, 1, 32, 0);
INSERT INTO public.schedule VALUES
	('c256ee80-73db-4ef5-b74e-b60db0ca82b1', 'nightly', '0 2 * * *', 'UTC', '{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "nightly/", "region": "us-east-1", "type": "s3"}, "strip": "nightly/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "nightly/", "region": "us-east-1", "type": "s3"}, "version": 2}', 0, 'active', 1795942645.1755269, 1, 1795942645.1755269, 'ada', NULL);
INSERT INTO public.schedule_event VALUES
	('c256ee80-73db-4ef5-b74e-b60db0ca82b1', 1, 'nightly', 1795942645.1755269, 'added', 'ada', '{"cron": "0 2 * * *", "name": "nightly", "priority": 0, "spec": "{\"copy_threshold\": 5242880, \"operation\": \"transfer\", \"part_size\": 5242880, \"source\": {\"access\": {\"identity\": {\"proof\": \"751c86810226\", \"source\": \"environment\"}}, \"bucket\": \"the-source\", \"endpoint_url\": \"http://127.0.0.1:9\", \"key\": \"nightly/\", \"region\": \"us-east-1\", \"type\": \"s3\"}, \"strip\": \"nightly/\", \"target\": {\"access\": {\"identity\": {\"proof\": \"751c86810226\", \"source\": \"environment\"}}, \"bucket\": \"the-target\", \"endpoint_url\": \"http://127.0.0.1:9\", \"key\": \"nightly/\", \"region\": \"us-east-1\", \"type\": \"s3\"}, \"version\": 2}", "timezone": "UTC"}', '0000000000000000000000000000000000000000000000000000000000000000', '33ddfee095cf9f69b783d61525858f0c07c24c01f9083cb1baa382888f925d77', '37812dec3e8e61c7');
INSERT INTO public.schema_note VALUES
	('dbos', '3.4.0'),
	('oldest reader', '0100');
INSERT INTO public.seqferry_schema VALUES
	('0100');
INSERT INTO public.tally VALUES
	('19952fcc-8981-4859-aeb2-e2f381057a98', 30, 30000, 29, 0, 0, 0, 29000),
	('caf1b3f3-7713-454f-8e64-33b8b20d50ec', 0, 0, 0, 0, 0, 0, 0),
	('25cb61b9-93f2-4b13-bab0-4b3441393ae9', 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.transfer VALUES
	('25cb61b9-93f2-4b13-bab0-4b3441393ae9', 'queued', '{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "strip": "queued/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "version": 2}', 1795942646.0997849, 'ada', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[{"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}, {"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}]', 'ce4408271ae2', NULL, 3, NULL, '8797cb103c1fa6877b57e2e9d71c8783bf1961fc5a20d2ec69da42017f1bfb96', 'http://localhost:35855 the-target', 'queued/', 's3://the-source/queued/', 's3://the-target/queued/', NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
	('19952fcc-8981-4859-aeb2-e2f381057a98', 'running', '{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "strip": "run/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "version": 2}', 1795942636.1677942, 'ada', 1795942639.9007337, 1795942640.9108853, NULL, NULL, NULL, NULL, true, 'host-13222-e5faf18b', '[{"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}, {"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}]', 'ce4408271ae2', NULL, 1, NULL, 'f43cec6f28566403c8545df236c0a9aa281596b60f63161d56d800f1b4854131', 'http://localhost:35855 the-target', 'run/', 's3://the-source/run/', 's3://the-target/run/', NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
	('caf1b3f3-7713-454f-8e64-33b8b20d50ec', 'paused', '{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "strip": "paused/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "version": 2}', 1795942644.900874, 'ada', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[{"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}, {"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}]', 'ce4408271ae2', NULL, 2, NULL, '2ae461282fb8dafe5964ba547bfd96797e1f8824bc1b5a9786e28181381b8527', 'http://localhost:35855 the-target', 'paused/', 's3://the-source/paused/', 's3://the-target/paused/', NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.worker VALUES
	('host-13222-e5faf18b@821cd71ebe6e.13222.4863513', 'worker', 'host', 13222, '0.1.0', '0100', '1', 1795942638.406972, 1795942645.428597, 5, NULL, NULL, '["ce4408271ae2"]', '{"max_requests": 10000, "max_bandwidth": null, "tpslimit": null, "memory": 100663296}', 107843584, 1, 29, '[{"bucket": "the-target", "prefix": "run/", "access": "write", "requests": 32, "rate": null, "in_flight": 29}, {"bucket": "the-target", "prefix": "", "access": "read", "requests": 32, "rate": null, "in_flight": 0}, {"bucket": "the-target", "prefix": "run/", "access": "read", "requests": 32, "rate": null, "in_flight": 0}, {"bucket": "the-source", "prefix": "", "access": "read", "requests": 32, "rate": null, "in_flight": 0}, {"bucket": "the-source", "prefix": "run/", "access": "read", "requests": 32, "rate": null, "in_flight": 0}]', '{"own_work": false}');
INSERT INTO public.worker_live VALUES
	('19952fcc-8981-4859-aeb2-e2f381057a98', 'host-13222-e5faf18b@821cd71ebe6e.13222.4863513', 1795942644.295025, '{"bytes": 29000, "objects": 29, "bytes_in_progress": 29000, "bytes_per_second": 7314.550347248146, "in_flight": 1, "requests": 60, "retries": 0, "throttled": 0, "slowest": [{"key": "run/s029", "size": 1000, "bytes_done": 0, "seconds": 3.232312516}], "bytes_recorded": 0}');
SELECT pg_catalog.setval('public.object_id_seq', 30, true);
SELECT pg_catalog.setval('public.transfer_turn', 3, true);
ALTER TABLE ONLY dbos.application_versions
    ADD CONSTRAINT application_versions_pkey PRIMARY KEY (version_id);
ALTER TABLE ONLY dbos.application_versions
    ADD CONSTRAINT application_versions_version_name_key UNIQUE (version_name);
ALTER TABLE ONLY dbos.dbos_migrations
    ADD CONSTRAINT dbos_migrations_pkey PRIMARY KEY (version);
ALTER TABLE ONLY dbos.event_dispatch_kv
    ADD CONSTRAINT event_dispatch_kv_pkey PRIMARY KEY (service_name, workflow_fn_name, key);
ALTER TABLE ONLY dbos.notifications
    ADD CONSTRAINT notifications_pkey PRIMARY KEY (message_uuid);
ALTER TABLE ONLY dbos.operation_outputs
    ADD CONSTRAINT operation_outputs_pkey PRIMARY KEY (workflow_uuid, function_id);
ALTER TABLE ONLY dbos.queues
    ADD CONSTRAINT queues_name_key UNIQUE (name);
ALTER TABLE ONLY dbos.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (queue_id);
ALTER TABLE ONLY dbos.streams
    ADD CONSTRAINT streams_pkey PRIMARY KEY (workflow_uuid, key, "offset");
ALTER TABLE ONLY dbos.workflow_events_history
    ADD CONSTRAINT workflow_events_history_pkey PRIMARY KEY (workflow_uuid, function_id, key);
ALTER TABLE ONLY dbos.workflow_events
    ADD CONSTRAINT workflow_events_pkey PRIMARY KEY (workflow_uuid, key);
ALTER TABLE ONLY dbos.workflow_input
    ADD CONSTRAINT workflow_input_pkey PRIMARY KEY (workflow_uuid);
ALTER TABLE ONLY dbos.workflow_output
    ADD CONSTRAINT workflow_output_pkey PRIMARY KEY (workflow_uuid);
ALTER TABLE ONLY dbos.workflow_schedules
    ADD CONSTRAINT workflow_schedules_pkey PRIMARY KEY (schedule_id);
ALTER TABLE ONLY dbos.workflow_schedules
    ADD CONSTRAINT workflow_schedules_schedule_name_key UNIQUE (schedule_name);
ALTER TABLE ONLY dbos.workflow_status
    ADD CONSTRAINT workflow_status_pkey PRIMARY KEY (workflow_uuid);
ALTER TABLE ONLY public.allotment
    ADD CONSTRAINT allotment_pkey PRIMARY KEY (name, worker_id);
ALTER TABLE ONLY public.anchor
    ADD CONSTRAINT anchor_pkey PRIMARY KEY (place, number);
ALTER TABLE ONLY public.autoscale_limit
    ADD CONSTRAINT autoscale_limit_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.batch
    ADD CONSTRAINT batch_pkey PRIMARY KEY (transfer_id, number);
ALTER TABLE ONLY public.chart
    ADD CONSTRAINT chart_pkey PRIMARY KEY (transfer_id);
ALTER TABLE ONLY public.delivery_mail
    ADD CONSTRAINT delivery_mail_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.endpoint_fact
    ADD CONSTRAINT endpoint_fact_pkey PRIMARY KEY (endpoint, bucket);
ALTER TABLE ONLY public.engine_sample
    ADD CONSTRAINT engine_sample_pkey PRIMARY KEY (executor_id, at);
ALTER TABLE ONLY public.event
    ADD CONSTRAINT event_pkey PRIMARY KEY (transfer_id, number);
ALTER TABLE ONLY public.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.notice
    ADD CONSTRAINT notice_pkey PRIMARY KEY (subject_kind, subject_id, kind, episode, channel);
ALTER TABLE ONLY public.object
    ADD CONSTRAINT object_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.report_ticket
    ADD CONSTRAINT report_ticket_pkey PRIMARY KEY (digest);
ALTER TABLE ONLY public.sample
    ADD CONSTRAINT sample_pkey PRIMARY KEY (transfer_id, executor_id, at);
ALTER TABLE ONLY public.schedule_event
    ADD CONSTRAINT schedule_event_pkey PRIMARY KEY (schedule_id, number);
ALTER TABLE ONLY public.schedule
    ADD CONSTRAINT schedule_name_key UNIQUE (name);
ALTER TABLE ONLY public.schedule
    ADD CONSTRAINT schedule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.schedule_run
    ADD CONSTRAINT schedule_run_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.schema_note
    ADD CONSTRAINT schema_note_pkey PRIMARY KEY (about);
ALTER TABLE ONLY public.seal
    ADD CONSTRAINT seal_pkey PRIMARY KEY (transfer_id, number);
ALTER TABLE ONLY public.seqferry_schema
    ADD CONSTRAINT seqferry_schema_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.share_link_event
    ADD CONSTRAINT share_link_event_pkey PRIMARY KEY (share_link_id, number);
ALTER TABLE ONLY public.share_link
    ADD CONSTRAINT share_link_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.submission_key
    ADD CONSTRAINT submission_key_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.tally
    ADD CONSTRAINT tally_pkey PRIMARY KEY (transfer_id);
ALTER TABLE ONLY public.token
    ADD CONSTRAINT token_pkey PRIMARY KEY (digest);
ALTER TABLE ONLY public.transfer
    ADD CONSTRAINT transfer_idempotency_key_key UNIQUE (idempotency_key);
ALTER TABLE ONLY public.transfer
    ADD CONSTRAINT transfer_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.object
    ADD CONSTRAINT uq_object_source UNIQUE (transfer_id, source_key, version_id, source_upload_id, member_place, upload_number);
ALTER TABLE ONLY public.worker_live
    ADD CONSTRAINT worker_live_pkey PRIMARY KEY (transfer_id, executor_id);
ALTER TABLE ONLY public.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (id);
CREATE INDEX idx_application_versions_owner_timestamp ON dbos.application_versions USING btree (application_name, version_timestamp DESC);
CREATE INDEX idx_application_versions_timestamp ON dbos.application_versions USING btree (version_timestamp DESC);
CREATE INDEX idx_operation_outputs_completed_at_function_name_v2 ON dbos.operation_outputs USING btree (completed_at_epoch_ms, function_name) INCLUDE (application_name);
CREATE INDEX idx_operation_outputs_retention ON dbos.operation_outputs USING btree (retention_timestamp);
CREATE INDEX idx_workflow_input_retention ON dbos.workflow_input USING btree (retention_timestamp);
CREATE INDEX idx_workflow_output_retention ON dbos.workflow_output USING btree (retention_timestamp);
CREATE INDEX idx_workflow_status_attributes ON dbos.workflow_status USING gin (attributes) WHERE (attributes IS NOT NULL);
CREATE INDEX idx_workflow_status_completed_at ON dbos.workflow_status USING btree (completed_at) WHERE (completed_at IS NOT NULL);
CREATE INDEX idx_workflow_status_deadline ON dbos.workflow_status USING btree (workflow_deadline_epoch_ms) WHERE ((status = ANY (ARRAY['ENQUEUED'::text, 'PENDING'::text, 'DELAYED'::text])) AND (workflow_deadline_epoch_ms IS NOT NULL));
CREATE INDEX idx_workflow_status_delayed ON dbos.workflow_status USING btree (delay_until_epoch_ms) WHERE (status = 'DELAYED'::text);
CREATE INDEX idx_workflow_status_failed ON dbos.workflow_status USING btree (status, created_at) WHERE (status = ANY (ARRAY['ERROR'::text, 'CANCELLED'::text, 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'::text]));
CREATE INDEX idx_workflow_status_forked_from ON dbos.workflow_status USING btree (forked_from) WHERE (forked_from IS NOT NULL);
CREATE INDEX idx_workflow_status_in_flight_v2 ON dbos.workflow_status USING btree (queue_name, status, priority, created_at) INCLUDE (application_name) WHERE (status = ANY (ARRAY['ENQUEUED'::text, 'PENDING'::text]));
CREATE INDEX idx_workflow_status_parent_workflow_id ON dbos.workflow_status USING btree (parent_workflow_id) WHERE (parent_workflow_id IS NOT NULL);
CREATE INDEX idx_workflow_status_partition_dequeue_v3 ON dbos.workflow_status USING btree (queue_name, status, queue_partition_key, priority, created_at, workflow_uuid) INCLUDE (application_name) WHERE ((status = ANY (ARRAY['ENQUEUED'::text, 'PENDING'::text])) AND (queue_partition_key IS NOT NULL));
CREATE INDEX idx_workflow_status_pending ON dbos.workflow_status USING btree (created_at) WHERE (status = 'PENDING'::text);
CREATE INDEX idx_workflow_status_rate_limited ON dbos.workflow_status USING btree (queue_name, started_at_epoch_ms) WHERE (rate_limited = true);
CREATE INDEX idx_workflow_status_schedule_name ON dbos.workflow_status USING btree (schedule_name) WHERE (schedule_name IS NOT NULL);
CREATE INDEX idx_workflow_status_started_at ON dbos.workflow_status USING btree (started_at_epoch_ms) WHERE (started_at_epoch_ms IS NOT NULL);
CREATE INDEX idx_workflow_topic ON dbos.notifications USING btree (destination_uuid, topic);
CREATE UNIQUE INDEX uq_application_versions_owner_version ON dbos.application_versions USING btree (application_name, version_name) WHERE (application_name IS NOT NULL);
CREATE UNIQUE INDEX uq_application_versions_unclaimed_version ON dbos.application_versions USING btree (version_name) WHERE (application_name IS NULL);
CREATE UNIQUE INDEX uq_workflow_status_dedup_id ON dbos.workflow_status USING btree (queue_name, deduplication_id) WHERE (deduplication_id IS NOT NULL);
CREATE INDEX workflow_status_created_at_index ON dbos.workflow_status USING btree (created_at);
CREATE INDEX ix_batch_state ON public.batch USING btree (transfer_id, state);
CREATE INDEX ix_delivery_mail_link ON public.delivery_mail USING btree (share_link_id);
CREATE INDEX ix_delivery_mail_transfer ON public.delivery_mail USING btree (transfer_id);
CREATE INDEX ix_ledger_transfer ON public.ledger USING btree (transfer_id);
CREATE INDEX ix_notice_due ON public.notice USING btree (state, next_at);
CREATE INDEX ix_object_batch ON public.object USING btree (transfer_id, batch_number);
CREATE INDEX ix_object_failed ON public.object USING btree (transfer_id, id) WHERE (error_class IS NOT NULL);
CREATE INDEX ix_object_page ON public.object USING btree (transfer_id, id);
CREATE INDEX ix_sample_at ON public.sample USING btree (at);
CREATE INDEX ix_schedule_event_name ON public.schedule_event USING btree (name);
CREATE INDEX ix_schedule_run ON public.schedule_run USING btree (schedule_id, at);
CREATE INDEX ix_share_link_created ON public.share_link USING btree (created_at);
CREATE INDEX ix_share_link_expires ON public.share_link USING btree (expires_at);
CREATE INDEX ix_share_link_label ON public.share_link USING btree (label);
CREATE INDEX ix_share_link_transfer ON public.share_link USING btree (transfer_id);
CREATE INDEX ix_token_name ON public.token USING btree (name);
CREATE INDEX ix_transfer_created ON public.transfer USING btree (created_at);
CREATE INDEX ix_transfer_name ON public.transfer USING btree (name);
CREATE INDEX ix_transfer_retry_of ON public.transfer USING btree (retry_of);
CREATE INDEX ix_transfer_submission ON public.transfer USING btree (submission);
CREATE INDEX ix_transfer_target ON public.transfer USING btree (target_place, target_prefix) WHERE (ended_at IS NULL);
CREATE INDEX ix_transfer_turn ON public.transfer USING btree (turn) WHERE (ended_at IS NULL);
CREATE TRIGGER dbos_notifications_trigger AFTER INSERT ON dbos.notifications FOR EACH ROW EXECUTE FUNCTION dbos.notifications_function();
ALTER TABLE ONLY dbos.notifications
    ADD CONSTRAINT notifications_destination_uuid_fkey FOREIGN KEY (destination_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;
ALTER TABLE ONLY dbos.streams
    ADD CONSTRAINT streams_workflow_uuid_fkey FOREIGN KEY (workflow_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;
ALTER TABLE ONLY dbos.workflow_events_history
    ADD CONSTRAINT workflow_events_history_workflow_uuid_fkey FOREIGN KEY (workflow_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;
ALTER TABLE ONLY dbos.workflow_events
    ADD CONSTRAINT workflow_events_workflow_uuid_fkey FOREIGN KEY (workflow_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;
ALTER TABLE ONLY public.batch
    ADD CONSTRAINT batch_transfer_id_fkey FOREIGN KEY (transfer_id) REFERENCES public.transfer(id);
ALTER TABLE ONLY public.chart
    ADD CONSTRAINT chart_transfer_id_fkey FOREIGN KEY (transfer_id) REFERENCES public.transfer(id);
ALTER TABLE ONLY public.event
    ADD CONSTRAINT event_transfer_id_fkey FOREIGN KEY (transfer_id) REFERENCES public.transfer(id);
ALTER TABLE ONLY public.sample
    ADD CONSTRAINT sample_transfer_id_fkey FOREIGN KEY (transfer_id) REFERENCES public.transfer(id);
ALTER TABLE ONLY public.seal
    ADD CONSTRAINT seal_transfer_id_fkey FOREIGN KEY (transfer_id) REFERENCES public.transfer(id);
ALTER TABLE ONLY public.submission_key
    ADD CONSTRAINT submission_key_transfer_id_fkey FOREIGN KEY (transfer_id) REFERENCES public.transfer(id);
ALTER TABLE ONLY public.tally
    ADD CONSTRAINT tally_transfer_id_fkey FOREIGN KEY (transfer_id) REFERENCES public.transfer(id);
ALTER TABLE ONLY public.worker_live
    ADD CONSTRAINT worker_live_transfer_id_fkey FOREIGN KEY (transfer_id) REFERENCES public.transfer(id);
