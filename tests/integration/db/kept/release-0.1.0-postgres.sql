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
CREATE TABLE public.anchor (
    place text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    hash text NOT NULL,
    at double precision NOT NULL,
    locked_until double precision
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
    started_at double precision,
    ended_at double precision,
    requests bigint DEFAULT '0'::bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE public.chart (
    transfer_id text NOT NULL COLLATE pg_catalog."C",
    since double precision NOT NULL,
    until double precision NOT NULL,
    points text NOT NULL
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
    version_id text NOT NULL COLLATE pg_catalog."C",
    target_key text NOT NULL COLLATE pg_catalog."C",
    size bigint NOT NULL,
    etag text NOT NULL,
    last_modified double precision NOT NULL,
    storage_class text,
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
    error_message text
)
WITH (fillfactor='40');
CREATE SEQUENCE public.object_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.object_id_seq OWNED BY public.object.id;
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
    submission text,
    target_place text,
    blocked_by text COLLATE pg_catalog."C",
    target_prefix text COLLATE pg_catalog."C",
    turn bigint,
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
	('cff07546-6c70-46cf-be8d-c25d43e40a6e', '1', 1795771548286, 1795771548286, 'seqferry');
INSERT INTO dbos.dbos_migrations VALUES
	(125);
INSERT INTO dbos.operation_outputs VALUES
	('b070faec-9f03-4734-bd4e-90911109369e', 1, 'plan', 'null', NULL, NULL, 1795771548724, 1795771549017, 'portable_json', 'seqferry', 1795771549018);
INSERT INTO dbos.queues VALUES
	('12b23daa-4e77-4463-85b7-0491685e992a', 'transfers.ce4408271ae2', NULL, 64, NULL, NULL, true, false, 0.25, 1795771548172, 1795771548161, 'seqferry', NULL, NULL, NULL, NULL),
	('8be26c0b-b0c0-45c8-bd37-1073546e233f', 'batches.ce4408271ae2', NULL, 8, NULL, NULL, true, false, 0.25, 1795771548199, 1795771548198, 'seqferry', NULL, NULL, NULL, NULL),
	('aaac46cc-2ea7-4b12-a554-f5b42c246423', 'schedules', NULL, 4, NULL, NULL, true, false, 0.25, 1795771548209, 1795771548208, 'seqferry', NULL, NULL, NULL, NULL);
INSERT INTO dbos.workflow_input VALUES
	('b070faec-9f03-4734-bd4e-90911109369e', '{"namedArgs":{},"positionalArgs":["b070faec-9f03-4734-bd4e-90911109369e"]}', 1795771545351),
	('b070faec-9f03-4734-bd4e-90911109369e:b000000', '{"namedArgs":{},"positionalArgs":["b070faec-9f03-4734-bd4e-90911109369e",0]}', 1795771548913),
	('9facdc9e-b38b-44ff-9c84-c0d05a4010fe', '{"namedArgs":{},"positionalArgs":["9facdc9e-b38b-44ff-9c84-c0d05a4010fe"]}', 1795771550501),
	('2fa48845-29b1-4b42-8b59-f3eb5e6dd632', '{"namedArgs":{},"positionalArgs":["2fa48845-29b1-4b42-8b59-f3eb5e6dd632"]}', 1795771550754);
INSERT INTO dbos.workflow_status VALUES
	('b070faec-9f03-4734-bd4e-90911109369e', 'PENDING', 'transfer', NULL, NULL, NULL, NULL, NULL, NULL, 'host-15010-319eec89@9f08739d2e35.15010.7281556', 1795771545351, 1795771548641, '1', NULL, NULL, NULL, 1, 'transfers.ce4408271ae2', NULL, NULL, NULL, 1795771548641, NULL, 641, NULL, NULL, '4246a148-fd26-4469-95d4-06e1f9f16f3f', NULL, 'portable_json', NULL, false, false, NULL, 'null', NULL, NULL, false, 'seqferry', '5641204c-9dd1-441f-8cb2-f2af21045141'),
	('b070faec-9f03-4734-bd4e-90911109369e:b000000', 'PENDING', 'batch', NULL, NULL, NULL, NULL, NULL, NULL, 'host-15010-319eec89@9f08739d2e35.15010.7281556', 1795771548913, 1795771548969, '1', NULL, NULL, NULL, 1, 'batches.ce4408271ae2', NULL, NULL, NULL, 1795771548969, NULL, 681, NULL, NULL, 'fe0322c4-1863-4302-83c9-da7fde30af8b', NULL, 'portable_json', NULL, false, false, NULL, 'null', NULL, NULL, false, 'seqferry', '7606e10d-f18c-47e5-b4bd-cb1c73b39ada'),
	('9facdc9e-b38b-44ff-9c84-c0d05a4010fe', 'ENQUEUED', 'transfer', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795771550501, 1795771550501, '1', NULL, NULL, NULL, 0, 'transfers.paused', NULL, NULL, NULL, NULL, NULL, 641, NULL, NULL, NULL, NULL, 'portable_json', NULL, false, false, NULL, 'null', NULL, NULL, false, 'seqferry', '3fa62cb4-7dd6-4ebb-a251-ab7937a4191d'),
	('2fa48845-29b1-4b42-8b59-f3eb5e6dd632', 'ENQUEUED', 'transfer', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795771550754, 1795771550754, '1', NULL, NULL, NULL, 0, 'transfers.ce4408271ae2', NULL, NULL, NULL, NULL, NULL, 641, NULL, NULL, NULL, NULL, 'portable_json', NULL, false, false, NULL, 'null', NULL, NULL, false, 'seqferry', '173da0e5-16fa-4f31-9435-f5962ee8585c');
INSERT INTO public.batch VALUES
	('b070faec-9f03-4734-bd4e-90911109369e', 0, 'active', 30, 30000, 29, 0, 0, 0, 29000, 1, 0, 1795771549.0348773, NULL, 0);
INSERT INTO public.engine_sample VALUES
	('host-15010-319eec89@9f08739d2e35.15010.7281556', 1795771550.414668, 29000, 79, 0, 0, 0, 0, 30269);
INSERT INTO public.event VALUES
	('b070faec-9f03-4734-bd4e-90911109369e', 1, 1795771545.373715, 'submitted', 'ada', '{"sealed": {"labels": null, "max_bandwidth": null, "max_requests": null, "name": null, "priority": 0, "retry_of": null, "source_uri": "s3://the-source/run/", "target_uri": "s3://the-target/run/", "tpslimit": null}, "spec": {"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "strip": "run/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "version": 2}}', '0000000000000000000000000000000000000000000000000000000000000000', '70d0fe89155c2b70813d97098f3463224dff349aad87bff3cb5bbf2babaa875d', '0939a344e060d9b4'),
	('b070faec-9f03-4734-bd4e-90911109369e', 2, 1795771548.761001, 'started', 'worker host-15010-319eec89', '{}', '70d0fe89155c2b70813d97098f3463224dff349aad87bff3cb5bbf2babaa875d', 'b8dee9960b187bab0bec7e1baf5946a24410ed5d763efd45d9555db84d1f81cc', '0939a344e060d9b4'),
	('b070faec-9f03-4734-bd4e-90911109369e', 3, 1795771548.9597816, 'planned', 'worker host-15010-319eec89', '{"bytes": 30000, "objects": 30}', 'b8dee9960b187bab0bec7e1baf5946a24410ed5d763efd45d9555db84d1f81cc', '504b00d30cb80bcf63bb45bbeec58df17e3a4d549bd4742be81985204a13c0ce', '0939a344e060d9b4'),
	('9facdc9e-b38b-44ff-9c84-c0d05a4010fe', 1, 1795771550.5018213, 'submitted', 'ada', '{"sealed": {"labels": null, "max_bandwidth": null, "max_requests": null, "name": null, "priority": 0, "retry_of": null, "source_uri": "s3://the-source/paused/", "target_uri": "s3://the-target/paused/", "tpslimit": null}, "spec": {"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "strip": "paused/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "version": 2}}', '0000000000000000000000000000000000000000000000000000000000000000', '5a9b86d572a8937908ae5a200b6037b1f214937dd9f658f3c7dea90dd2b16af0', '0939a344e060d9b4'),
	('9facdc9e-b38b-44ff-9c84-c0d05a4010fe', 2, 1795771550.5508327, 'paused', 'ada', '{}', '5a9b86d572a8937908ae5a200b6037b1f214937dd9f658f3c7dea90dd2b16af0', '8c0f223f596d39cc2070759831148f9f5024a74f21bef9e825c71a342df302e0', '0939a344e060d9b4'),
	('2fa48845-29b1-4b42-8b59-f3eb5e6dd632', 1, 1795771550.7560806, 'submitted', 'ada', '{"sealed": {"labels": null, "max_bandwidth": null, "max_requests": null, "name": null, "priority": 0, "retry_of": null, "source_uri": "s3://the-source/queued/", "target_uri": "s3://the-target/queued/", "tpslimit": null}, "spec": {"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "strip": "queued/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "version": 2}}', '0000000000000000000000000000000000000000000000000000000000000000', 'dcad1a9486f7141ad71df596ccddf3b19dd1a2841d1ce187901e0f12114745d2', '0939a344e060d9b4');
INSERT INTO public.ledger VALUES
	(1, 1795771545.373715, 'b070faec-9f03-4734-bd4e-90911109369e', 1, 'submitted', '70d0fe89155c2b70813d97098f3463224dff349aad87bff3cb5bbf2babaa875d', '0939a344e060d9b4', '0000000000000000000000000000000000000000000000000000000000000000', '84db72cafc9ea832333f009baad269a9037f72423655147093827265390b84a9'),
	(2, 1795771550.5018213, '9facdc9e-b38b-44ff-9c84-c0d05a4010fe', 1, 'submitted', '5a9b86d572a8937908ae5a200b6037b1f214937dd9f658f3c7dea90dd2b16af0', '0939a344e060d9b4', '84db72cafc9ea832333f009baad269a9037f72423655147093827265390b84a9', 'aa0b8119d764fbbe7fff8bc4ba8092cbe2102573a1827e4bce9a96692c480d9e'),
	(3, 1795771550.7560806, '2fa48845-29b1-4b42-8b59-f3eb5e6dd632', 1, 'submitted', 'dcad1a9486f7141ad71df596ccddf3b19dd1a2841d1ce187901e0f12114745d2', '0939a344e060d9b4', 'aa0b8119d764fbbe7fff8bc4ba8092cbe2102573a1827e4bce9a96692c480d9e', '367bba3d6c055b14460c89223b6a3ebfa7be7a786f6fec73e4e8eee5a0a1fc36');
INSERT INTO public.object VALUES
	(15, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s014', '', 'run/s014', 1000, '265d2657cd8ed41d0044be243260795f', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0740135, 1795771549.293002, NULL, NULL, '265d2657cd8ed41d0044be243260795f', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(8, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s007', '', 'run/s007', 1000, 'c785f46feed7afd0f21d6b15136c859c', 1795771534, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0790217, 1795771550.1148255, NULL, NULL, 'c785f46feed7afd0f21d6b15136c859c', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(7, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s006', '', 'run/s006', 1000, '498c4393c7c61f899b7c88829fd67c5c', 1795771534, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0789955, 1795771550.1148896, NULL, NULL, '498c4393c7c61f899b7c88829fd67c5c', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(5, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s004', '', 'run/s004', 1000, '149591484b572f06655c09d225d56a77', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0789342, 1795771550.1149292, NULL, NULL, '149591484b572f06655c09d225d56a77', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(1, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s000', '', 'run/s000', 1000, '742ddb9d181b57fcacaa72438402aee4', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0786433, 1795771550.114969, NULL, NULL, '742ddb9d181b57fcacaa72438402aee4', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(2, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s001', '', 'run/s001', 1000, 'c8d1d963be2de1688155c0d308967e5e', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.078832, 1795771550.115001, NULL, NULL, 'c8d1d963be2de1688155c0d308967e5e', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(3, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s002', '', 'run/s002', 1000, 'e1e06e2b080235b7081ad31a7a5ab4a0', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.078871, 1795771550.1150324, NULL, NULL, 'e1e06e2b080235b7081ad31a7a5ab4a0', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(6, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s005', '', 'run/s005', 1000, 'd7f32a0e260c266cfd2e71df104f90cd', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0789614, 1795771550.1150672, NULL, NULL, 'd7f32a0e260c266cfd2e71df104f90cd', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(4, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s003', '', 'run/s003', 1000, '2d8a5f494cfe4ffe32fad831ede47515', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0789025, 1795771550.1284997, NULL, NULL, '2d8a5f494cfe4ffe32fad831ede47515', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(9, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s008', '', 'run/s008', 1000, '1c193593e83839fbf503e0703d3e5dbb', 1795771534, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0790617, 1795771550.1412802, NULL, NULL, '1c193593e83839fbf503e0703d3e5dbb', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(13, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s012', '', 'run/s012', 1000, 'e87a53d05322d92c5b3a6bfc623bd37a', 1795771534, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.079306, 1795771550.157995, NULL, NULL, 'e87a53d05322d92c5b3a6bfc623bd37a', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(12, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s011', '', 'run/s011', 1000, '92749faf21e2523a14bdac810370e25c', 1795771534, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0792572, 1795771550.167868, NULL, NULL, '92749faf21e2523a14bdac810370e25c', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(16, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s015', '', 'run/s015', 1000, '84b14ba2b0e6a71e1d50307a003e7919', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0794437, 1795771550.1679041, NULL, NULL, '84b14ba2b0e6a71e1d50307a003e7919', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(14, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s013', '', 'run/s013', 1000, '529a79c9899739651e84f1fa3afb919d', 1795771534, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0793505, 1795771550.1680458, NULL, NULL, '529a79c9899739651e84f1fa3afb919d', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(10, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s009', '', 'run/s009', 1000, 'd0e1cab941ed40b9be252f02244aae80', 1795771534, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0791628, 1795771550.1681087, NULL, NULL, 'd0e1cab941ed40b9be252f02244aae80', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(11, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s010', '', 'run/s010', 1000, '5fd121114ca8eb0d215df83d67f3d0cb', 1795771534, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0792122, 1795771550.168199, NULL, NULL, '5fd121114ca8eb0d215df83d67f3d0cb', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(30, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s029', '', 'run/s029', 1000, '739bad3e7110283ca62dd8beecce796f', 1795771535, 'STANDARD', 'pending', 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(28, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s027', '', 'run/s027', 1000, '9c1e7c033eb221418b451554bfce1eed', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0798826, 1795771550.1285582, NULL, NULL, '9c1e7c033eb221418b451554bfce1eed', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(18, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s017', '', 'run/s017', 1000, '6c80a10b0a9d694429de8722eabea0b1', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.079523, 1795771550.1410198, NULL, NULL, '6c80a10b0a9d694429de8722eabea0b1', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(19, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s018', '', 'run/s018', 1000, '475a23029b8faf879e20e93da327de30', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0795681, 1795771550.1420107, NULL, NULL, '475a23029b8faf879e20e93da327de30', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(21, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s020', '', 'run/s020', 1000, '9e29fb627ea3b59583e46eac90d1e722', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0796585, 1795771550.155653, NULL, NULL, '9e29fb627ea3b59583e46eac90d1e722', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(17, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s016', '', 'run/s016', 1000, 'fe0338ab18d549f1bc178dc376c122da', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0794847, 1795771550.158482, NULL, NULL, 'fe0338ab18d549f1bc178dc376c122da', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(20, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s019', '', 'run/s019', 1000, '82c4ddeb98530d856f64cd09e3be9545', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0796134, 1795771550.1587002, NULL, NULL, '82c4ddeb98530d856f64cd09e3be9545', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(22, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s021', '', 'run/s021', 1000, 'eb09c4d5ff5c369acf57c51309e66fe2', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0793965, 1795771550.1588974, NULL, NULL, 'eb09c4d5ff5c369acf57c51309e66fe2', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(27, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s026', '', 'run/s026', 1000, 'c5abc4e7336acd03a168a6904038fdd2', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0799282, 1795771550.1677518, NULL, NULL, 'c5abc4e7336acd03a168a6904038fdd2', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(23, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s022', '', 'run/s022', 1000, '83f508f81049eb3d2d00c6afe15a8e01', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0797572, 1795771550.1678221, NULL, NULL, '83f508f81049eb3d2d00c6afe15a8e01', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(24, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s023', '', 'run/s023', 1000, '7d8e7ef94e30de25522e16c2f6b1cbf0', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0797968, 1795771550.1679413, NULL, NULL, '7d8e7ef94e30de25522e16c2f6b1cbf0', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(25, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s024', '', 'run/s024', 1000, '3472dbe474a10e985e6a3838e97df820', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0798433, 1795771550.1679797, NULL, NULL, '3472dbe474a10e985e6a3838e97df820', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(29, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s028', '', 'run/s028', 1000, '13ddfa059e71c1dba2f21199678819b2', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0799706, 1795771550.1680143, NULL, NULL, '13ddfa059e71c1dba2f21199678819b2', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL),
	(26, 'b070faec-9f03-4734-bd4e-90911109369e', 0, 'run/s025', '', 'run/s025', 1000, 'd85e2429d9b97220cd883d6e4dae1e5e', 1795771535, 'STANDARD', 'done', 1, 0, 'copy', 1795771549.0797076, 1795771550.1680782, NULL, NULL, 'd85e2429d9b97220cd883d6e4dae1e5e', NULL, NULL, NULL, 'etag', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.sample VALUES
	('b070faec-9f03-4734-bd4e-90911109369e', 'host-15010-319eec89@9f08739d2e35.15010.7281556', 1795771550.392248, 29000, 29, 60, 0);
INSERT INTO public.schedule VALUES
	('093e8ba1-7fe5-4bcb-aa93-e2f6b578f9a6', 'nightly', '0 2 * * *', 'UTC', '{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "nightly/", "region": "us-east-1", "type": "s3"}, "strip": "nightly/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "nightly/", "region": "us-east-1", "type": "s3"}, "version": 2}', 0, 'active', 1795771550.6346684, 1, 1795771550.6346684, 'ada', NULL);
INSERT INTO public.schedule_event VALUES
	('093e8ba1-7fe5-4bcb-aa93-e2f6b578f9a6', 1, 'nightly', 1795771550.6346684, 'added', 'ada', '{"cron": "0 2 * * *", "name": "nightly", "priority": 0, "spec": "{\"copy_threshold\": 5242880, \"operation\": \"transfer\", \"part_size\": 5242880, \"source\": {\"access\": {\"identity\": {\"proof\": \"751c86810226\", \"source\": \"environment\"}}, \"bucket\": \"the-source\", \"endpoint_url\": \"http://127.0.0.1:9\", \"key\": \"nightly/\", \"region\": \"us-east-1\", \"type\": \"s3\"}, \"strip\": \"nightly/\", \"target\": {\"access\": {\"identity\": {\"proof\": \"751c86810226\", \"source\": \"environment\"}}, \"bucket\": \"the-target\", \"endpoint_url\": \"http://127.0.0.1:9\", \"key\": \"nightly/\", \"region\": \"us-east-1\", \"type\": \"s3\"}, \"version\": 2}", "timezone": "UTC"}', '0000000000000000000000000000000000000000000000000000000000000000', 'd1eae1bfbe43a018e5b8638b7586cb7af3c0fd56d8f29f0e88720638f5a15548', '0939a344e060d9b4');
INSERT INTO public.schema_note VALUES
	('dbos', '3.4.0');
INSERT INTO public.seqferry_schema VALUES
	('0020');
INSERT INTO public.tally VALUES
	('b070faec-9f03-4734-bd4e-90911109369e', 30, 30000, 29, 0, 0, 0, 29000),
	('9facdc9e-b38b-44ff-9c84-c0d05a4010fe', 0, 0, 0, 0, 0, 0, 0),
	('2fa48845-29b1-4b42-8b59-f3eb5e6dd632', 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.transfer VALUES
	('2fa48845-29b1-4b42-8b59-f3eb5e6dd632', 'queued', '{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "strip": "queued/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "version": 2}', 1795771550.7560806, 'ada', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[{"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}, {"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}]', 'ce4408271ae2', NULL, '9ae88f1a80ab3429c44af7aa192bbbeed22d38fda93078e0109b79f2623c8b9a', 'http://localhost:36545 the-target', NULL, 'queued/', 3, 's3://the-source/queued/', 's3://the-target/queued/', NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
	('b070faec-9f03-4734-bd4e-90911109369e', 'running', '{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "strip": "run/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "version": 2}', 1795771545.373715, 'ada', 1795771548.761001, 1795771548.9597816, NULL, NULL, NULL, NULL, true, 'host-15010-319eec89', '[{"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}, {"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}]', 'ce4408271ae2', NULL, '654f5587d8b7e54f9f8a1b9fb7801f14edb84f15ca87ce89c202e6fe410c824b', 'http://localhost:36545 the-target', NULL, 'run/', 1, 's3://the-source/run/', 's3://the-target/run/', NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
	('9facdc9e-b38b-44ff-9c84-c0d05a4010fe', 'paused', '{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "strip": "paused/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "version": 2}', 1795771550.5018213, 'ada', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[{"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}, {"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}]', 'ce4408271ae2', NULL, '6293f7793210135a2a09d56e6ed27bcd692de1c5b50da292184b5fcefdbcadd5', 'http://localhost:36545 the-target', NULL, 'paused/', 2, 's3://the-source/paused/', 's3://the-target/paused/', NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.worker VALUES
	('host-15010-319eec89@9f08739d2e35.15010.7281556', 'worker', 'host', 15010, '0.1.0', '0020', '1', 1795771547.717971, 1795771549.821319, 3, NULL, '["ce4408271ae2"]', '{"max_requests": 10000, "max_bandwidth": null, "tpslimit": null, "memory": 100663296}', 106012672, 1, 1, '[{"bucket": "the-target", "prefix": "run/", "access": "write", "requests": 32, "rate": null, "in_flight": 1}, {"bucket": "the-target", "prefix": "", "access": "read", "requests": 32, "rate": null, "in_flight": 0}, {"bucket": "the-target", "prefix": "run/", "access": "read", "requests": 32, "rate": null, "in_flight": 0}, {"bucket": "the-source", "prefix": "", "access": "read", "requests": 32, "rate": null, "in_flight": 0}, {"bucket": "the-source", "prefix": "run/", "access": "read", "requests": 32, "rate": null, "in_flight": 0}]', '{"own_work": false}');
INSERT INTO public.worker_live VALUES
	('b070faec-9f03-4734-bd4e-90911109369e', 'host-15010-319eec89@9f08739d2e35.15010.7281556', 1795771550.388796, '{"bytes": 29000, "objects": 29, "bytes_in_progress": 0, "bytes_per_second": 27455.691304358086, "in_flight": 1, "requests": 60, "retries": 0, "throttled": 0, "slowest": [{"key": "run/s029", "size": 1000, "bytes_done": 0, "seconds": 1.309495163}]}');
SELECT pg_catalog.setval('public.object_id_seq', 30, true);
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
ALTER TABLE ONLY public.anchor
    ADD CONSTRAINT anchor_pkey PRIMARY KEY (place, number);
ALTER TABLE ONLY public.batch
    ADD CONSTRAINT batch_pkey PRIMARY KEY (transfer_id, number);
ALTER TABLE ONLY public.chart
    ADD CONSTRAINT chart_pkey PRIMARY KEY (transfer_id);
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
ALTER TABLE ONLY public.transfer
    ADD CONSTRAINT transfer_idempotency_key_key UNIQUE (idempotency_key);
ALTER TABLE ONLY public.transfer
    ADD CONSTRAINT transfer_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.object
    ADD CONSTRAINT uq_object_source UNIQUE (transfer_id, source_key, version_id);
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
CREATE INDEX ix_ledger_transfer ON public.ledger USING btree (transfer_id);
CREATE INDEX ix_notice_due ON public.notice USING btree (state, next_at);
CREATE INDEX ix_object_batch ON public.object USING btree (transfer_id, batch_number);
CREATE INDEX ix_object_failed ON public.object USING btree (transfer_id, id) WHERE (error_class IS NOT NULL);
CREATE INDEX ix_object_page ON public.object USING btree (transfer_id, id);
CREATE INDEX ix_schedule_event_name ON public.schedule_event USING btree (name);
CREATE INDEX ix_schedule_run ON public.schedule_run USING btree (schedule_id, at);
CREATE INDEX ix_share_link_created ON public.share_link USING btree (created_at);
CREATE INDEX ix_transfer_created ON public.transfer USING btree (created_at);
CREATE INDEX ix_transfer_name ON public.transfer USING btree (name);
CREATE INDEX ix_transfer_retry_of ON public.transfer USING btree (retry_of);
CREATE INDEX ix_transfer_submission ON public.transfer USING btree (submission) WHERE (ended_at IS NULL);
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
