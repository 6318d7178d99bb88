BEGIN TRANSACTION;
CREATE TABLE anchor (
	place TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	hash TEXT NOT NULL, 
	at DOUBLE NOT NULL, 
	locked_until DOUBLE, 
	PRIMARY KEY (place, number)
);
CREATE TABLE application_versions (
    version_id TEXT NOT NULL PRIMARY KEY,
    version_name TEXT NOT NULL UNIQUE,
    version_timestamp INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000),
    created_at INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000)
, "application_name" TEXT DEFAULT NULL);
INSERT INTO "application_versions" VALUES('202f97ec-1879-4f74-8a46-45233550444d','1',1795754306000,1795754306000,'seqferry');
CREATE TABLE batch (
	transfer_id TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	objects INTEGER NOT NULL, 
	bytes BIGINT NOT NULL, 
	done INTEGER NOT NULL, 
	skipped INTEGER NOT NULL, 
	failed INTEGER NOT NULL, 
	cancelled INTEGER NOT NULL, 
	bytes_done BIGINT NOT NULL, 
	runs INTEGER NOT NULL, 
	barren_runs INTEGER NOT NULL, 
	started_at DOUBLE, 
	ended_at DOUBLE, requests BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (transfer_id, number), 
	FOREIGN KEY(transfer_id) REFERENCES transfer (id)
);
INSERT INTO "batch" VALUES('4104701f-77a5-4eb1-a384-a0730c261614',0,'active',30,30000,29,0,0,0,29000,1,0,1.79575430672307252881e+09,NULL,0);
CREATE TABLE dbos_migrations (version INTEGER NOT NULL PRIMARY KEY);
INSERT INTO "dbos_migrations" VALUES(125);
CREATE TABLE engine_sample (
	executor_id TEXT NOT NULL, 
	at DOUBLE NOT NULL, 
	bytes BIGINT NOT NULL, 
	requests BIGINT NOT NULL, 
	retries BIGINT NOT NULL, 
	throttled BIGINT NOT NULL, 
	hedges BIGINT NOT NULL, 
	waited_ms BIGINT NOT NULL, 
	busy_ms BIGINT NOT NULL, 
	PRIMARY KEY (executor_id, at)
);
CREATE TABLE event (
	transfer_id TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	at DOUBLE NOT NULL, 
	kind TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	data TEXT NOT NULL, 
	previous TEXT NOT NULL, 
	hash TEXT NOT NULL, key_id TEXT, 
	PRIMARY KEY (transfer_id, number), 
	FOREIGN KEY(transfer_id) REFERENCES transfer (id)
);
INSERT INTO "event" VALUES('4104701f-77a5-4eb1-a384-a0730c261614',1,1.79575430450657582285e+09,'submitted','ada','{"sealed": {"labels": null, "max_bandwidth": null, "max_requests": null, "name": null, "priority": 0, "retry_of": null, "source_uri": "s3://the-source/run/", "target_uri": "s3://the-target/run/", "tpslimit": null}, "spec": {"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "strip": "run/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "version": 2}}','0000000000000000000000000000000000000000000000000000000000000000','7c2ac6d2c77eed24e53934b832f0bc2e379b90b6688167d5ec0482ccb90de329','6c8a8b9a50cadb90');
INSERT INTO "event" VALUES('4104701f-77a5-4eb1-a384-a0730c261614',2,1.79575430646201062204e+09,'started','worker host-5258-3167395c','{}','7c2ac6d2c77eed24e53934b832f0bc2e379b90b6688167d5ec0482ccb90de329','b8fd629b91190f0e8bdfb16fdf2129f25e9bec9a619e681d3923cbfee4bff392','6c8a8b9a50cadb90');
INSERT INTO "event" VALUES('4104701f-77a5-4eb1-a384-a0730c261614',3,1.79575430653708553317e+09,'planned','worker host-5258-3167395c','{"bytes": 30000, "objects": 30}','b8fd629b91190f0e8bdfb16fdf2129f25e9bec9a619e681d3923cbfee4bff392','3319fa34116b00f6762cec10fba1115962e4341acdbc3780df6ee2765bd6c2e4','6c8a8b9a50cadb90');
INSERT INTO "event" VALUES('c9a6f021-11bc-438e-82ea-80b7b46ace4e',1,1.79575430797342252726e+09,'submitted','ada','{"sealed": {"labels": null, "max_bandwidth": null, "max_requests": null, "name": null, "priority": 0, "retry_of": null, "source_uri": "s3://the-source/paused/", "target_uri": "s3://the-target/paused/", "tpslimit": null}, "spec": {"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "strip": "paused/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "version": 2}}','0000000000000000000000000000000000000000000000000000000000000000','99a6ef10e043b3c395165fbe2ddfb2a6ec21548f3ca1a3976448ad9d34d424b2','6c8a8b9a50cadb90');
INSERT INTO "event" VALUES('c9a6f021-11bc-438e-82ea-80b7b46ace4e',2,1.79575430801517343525e+09,'paused','ada','{}','99a6ef10e043b3c395165fbe2ddfb2a6ec21548f3ca1a3976448ad9d34d424b2','df42ad8dd2ee6f140d5ca897ef5f9954a88d55aa8822bb96ec954a277c0ff063','6c8a8b9a50cadb90');
INSERT INTO "event" VALUES('df9ecbb9-b02e-44e0-849e-d0ddd50815bc',1,1.79575430808791708945e+09,'submitted','ada','{"sealed": {"labels": null, "max_bandwidth": null, "max_requests": null, "name": null, "priority": 0, "retry_of": null, "source_uri": "s3://the-source/queued/", "target_uri": "s3://the-target/queued/", "tpslimit": null}, "spec": {"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "strip": "queued/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "version": 2}}','0000000000000000000000000000000000000000000000000000000000000000','c1872ea3ec8438030cf613e7b9acf23a557191edd51d35a33cc60da936b1dfc6','6c8a8b9a50cadb90');
CREATE TABLE ledger (
	number BIGINT NOT NULL, 
	at DOUBLE NOT NULL, 
	transfer_id TEXT NOT NULL, 
	event_number INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	event_hash TEXT NOT NULL, 
	key_id TEXT, 
	previous TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "ledger" VALUES(1,1.79575430450657582285e+09,'4104701f-77a5-4eb1-a384-a0730c261614',1,'submitted','7c2ac6d2c77eed24e53934b832f0bc2e379b90b6688167d5ec0482ccb90de329','6c8a8b9a50cadb90','0000000000000000000000000000000000000000000000000000000000000000','a088928a5fc3efd23a2acd32fa63632b3f712cf621c69cf695908bf4097e7e9d');
INSERT INTO "ledger" VALUES(2,1.79575430797342252726e+09,'c9a6f021-11bc-438e-82ea-80b7b46ace4e',1,'submitted','99a6ef10e043b3c395165fbe2ddfb2a6ec21548f3ca1a3976448ad9d34d424b2','6c8a8b9a50cadb90','a088928a5fc3efd23a2acd32fa63632b3f712cf621c69cf695908bf4097e7e9d','0ab104fc8c8f7d85c6b4df9a95174a4ebf61cf9ae6f42e005b2e2d44edcb59ca');
INSERT INTO "ledger" VALUES(3,1.79575430808791708945e+09,'df9ecbb9-b02e-44e0-849e-d0ddd50815bc',1,'submitted','c1872ea3ec8438030cf613e7b9acf23a557191edd51d35a33cc60da936b1dfc6','6c8a8b9a50cadb90','0ab104fc8c8f7d85c6b4df9a95174a4ebf61cf9ae6f42e005b2e2d44edcb59ca','0fcc166b1433a68fa3aaec364dd07ce9e6a39814984df951ecb2e25ccd604e0f');
CREATE TABLE notice (
	subject_kind TEXT NOT NULL, 
	subject_id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	episode BIGINT NOT NULL, 
	channel TEXT NOT NULL, 
	state TEXT NOT NULL, 
	attempts INTEGER DEFAULT '0' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	next_at DOUBLE NOT NULL, 
	sent_at DOUBLE, 
	error TEXT, 
	PRIMARY KEY (subject_kind, subject_id, kind, episode, channel)
);
CREATE TABLE notifications (
    message_uuid TEXT NOT NULL DEFAULT (hex(randomblob(16))) PRIMARY KEY,
    destination_uuid TEXT NOT NULL,
    topic TEXT,
    message TEXT NOT NULL,
    created_at_epoch_ms INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000), "serialization" TEXT DEFAULT NULL, "consumed" BOOLEAN NOT NULL DEFAULT FALSE, consumed_by_function_id INTEGER,
    FOREIGN KEY (destination_uuid) REFERENCES workflow_status(workflow_uuid) 
        ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE TABLE object (
	id INTEGER NOT NULL, 
	transfer_id TEXT NOT NULL, 
	batch_number INTEGER NOT NULL, 
	source_key TEXT NOT NULL, 
	version_id TEXT NOT NULL, 
	target_key TEXT NOT NULL, 
	size BIGINT NOT NULL, 
	etag TEXT NOT NULL, 
	last_modified DOUBLE NOT NULL, 
	storage_class TEXT, 
	state TEXT NOT NULL, 
	attempts INTEGER NOT NULL, 
	retries INTEGER NOT NULL, 
	method TEXT, 
	started_at DOUBLE, 
	ended_at DOUBLE, 
	upload_id TEXT, 
	part_size BIGINT, 
	target_etag TEXT, 
	target_version_id TEXT, 
	checksum_algorithm TEXT, 
	checksum TEXT, 
	verified TEXT, 
	not_carried TEXT, 
	error_class TEXT, 
	error_code TEXT, 
	error_operation TEXT, 
	error_message TEXT, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_object_source UNIQUE (transfer_id, source_key, version_id)
);
INSERT INTO "object" VALUES(1,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s000','','run/s000',1000,'742ddb9d181b57fcacaa72438402aee4',1795754302.0,'STANDARD','done',1,0,'copy',1.7957543067413172722e+09,1.79575430780171275135e+09,NULL,NULL,'742ddb9d181b57fcacaa72438402aee4',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(2,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s001','','run/s001',1000,'c8d1d963be2de1688155c0d308967e5e',1795754303.0,'STANDARD','done',1,0,'copy',1.79575430674137687678e+09,1.79575430781081771857e+09,NULL,NULL,'c8d1d963be2de1688155c0d308967e5e',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(3,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s002','','run/s002',1000,'e1e06e2b080235b7081ad31a7a5ab4a0',1795754303.0,'STANDARD','done',1,0,'copy',1.79575430674142956736e+09,1.79575430778663253789e+09,NULL,NULL,'e1e06e2b080235b7081ad31a7a5ab4a0',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(4,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s003','','run/s003',1000,'2d8a5f494cfe4ffe32fad831ede47515',1795754303.0,'STANDARD','done',1,0,'copy',1.79575430674147486689e+09,1.79575430779018521305e+09,NULL,NULL,'2d8a5f494cfe4ffe32fad831ede47515',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(5,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s004','','run/s004',1000,'149591484b572f06655c09d225d56a77',1795754303.0,'STANDARD','done',1,0,'copy',1.79575430674152255062e+09,1.79575430781085443494e+09,NULL,NULL,'149591484b572f06655c09d225d56a77',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(6,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s005','','run/s005',1000,'d7f32a0e260c266cfd2e71df104f90cd',1795754303.0,'STANDARD','done',1,0,'copy',1.79575430674157023426e+09,1.7957543077897279262e+09,NULL,NULL,'d7f32a0e260c266cfd2e71df104f90cd',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(7,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s006','','run/s006',1000,'498c4393c7c61f899b7c88829fd67c5c',1795754303.0,'STANDARD','done',1,0,'copy',1.79575430674171447747e+09,1.79575430781067156785e+09,NULL,NULL,'498c4393c7c61f899b7c88829fd67c5c',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(8,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s007','','run/s007',1000,'c785f46feed7afd0f21d6b15136c859c',1795754303.0,'STANDARD','done',1,0,'copy',1.79575430674179172515e+09,1.79575430779441738132e+09,NULL,NULL,'c785f46feed7afd0f21d6b15136c859c',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(9,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s008','','run/s008',1000,'1c193593e83839fbf503e0703d3e5dbb',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674185156825e+09,1.79575430781089353561e+09,NULL,NULL,'1c193593e83839fbf503e0703d3e5dbb',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(10,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s009','','run/s009',1000,'d0e1cab941ed40b9be252f02244aae80',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674190473557e+09,1.79575430778773927681e+09,NULL,NULL,'d0e1cab941ed40b9be252f02244aae80',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(11,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s010','','run/s010',1000,'5fd121114ca8eb0d215df83d67f3d0cb',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674195885656e+09,1.79575430781073451039e+09,NULL,NULL,'5fd121114ca8eb0d215df83d67f3d0cb',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(12,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s011','','run/s011',1000,'92749faf21e2523a14bdac810370e25c',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674204063411e+09,1.79575430781077909469e+09,NULL,NULL,'92749faf21e2523a14bdac810370e25c',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(13,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s012','','run/s012',1000,'e87a53d05322d92c5b3a6bfc623bd37a',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674209904672e+09,1.79575430777866888046e+09,NULL,NULL,'e87a53d05322d92c5b3a6bfc623bd37a',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(14,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s013','','run/s013',1000,'529a79c9899739651e84f1fa3afb919d',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674217748645e+09,1.79575430783862352371e+09,NULL,NULL,'529a79c9899739651e84f1fa3afb919d',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(15,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s014','','run/s014',1000,'265d2657cd8ed41d0044be243260795f',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674273681637e+09,1.7957543078330516815e+09,NULL,NULL,'265d2657cd8ed41d0044be243260795f',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(16,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s015','','run/s015',1000,'84b14ba2b0e6a71e1d50307a003e7919',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674282407765e+09,1.79575430783217453957e+09,NULL,NULL,'84b14ba2b0e6a71e1d50307a003e7919',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(17,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s016','','run/s016',1000,'fe0338ab18d549f1bc178dc376c122da',1795754302.0,'STANDARD','done',1,0,'copy',1.7957543067428996563e+09,1.79575430783247590063e+09,NULL,NULL,'fe0338ab18d549f1bc178dc376c122da',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(18,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s017','','run/s017',1000,'6c80a10b0a9d694429de8722eabea0b1',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674296116829e+09,1.79575430783267641068e+09,NULL,NULL,'6c80a10b0a9d694429de8722eabea0b1',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(19,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s018','','run/s018',1000,'475a23029b8faf879e20e93da327de30',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674303793904e+09,1.79575430783287286759e+09,NULL,NULL,'475a23029b8faf879e20e93da327de30',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(20,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s019','','run/s019',1000,'82c4ddeb98530d856f64cd09e3be9545',1795754302.0,'STANDARD','done',1,0,'copy',1.7957543067431297302e+09,1.79575430784732651716e+09,NULL,NULL,'82c4ddeb98530d856f64cd09e3be9545',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(21,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s020','','run/s020',1000,'9e29fb627ea3b59583e46eac90d1e722',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674320721626e+09,1.79575430784726595883e+09,NULL,NULL,'9e29fb627ea3b59583e46eac90d1e722',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(22,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s021','','run/s021',1000,'eb09c4d5ff5c369acf57c51309e66fe2',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674264359476e+09,1.79575430696100068095e+09,NULL,NULL,'eb09c4d5ff5c369acf57c51309e66fe2',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(23,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s022','','run/s022',1000,'83f508f81049eb3d2d00c6afe15a8e01',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674337553973e+09,1.7957543078473718166e+09,NULL,NULL,'83f508f81049eb3d2d00c6afe15a8e01',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(24,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s023','','run/s023',1000,'7d8e7ef94e30de25522e16c2f6b1cbf0',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674344825739e+09,1.79575430784729838371e+09,NULL,NULL,'7d8e7ef94e30de25522e16c2f6b1cbf0',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(25,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s024','','run/s024',1000,'3472dbe474a10e985e6a3838e97df820',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674353957172e+09,1.79575430784717798233e+09,NULL,NULL,'3472dbe474a10e985e6a3838e97df820',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(26,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s025','','run/s025',1000,'d85e2429d9b97220cd883d6e4dae1e5e',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674328422541e+09,1.79575430784722757339e+09,NULL,NULL,'d85e2429d9b97220cd883d6e4dae1e5e',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(27,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s026','','run/s026',1000,'c5abc4e7336acd03a168a6904038fdd2',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674371504776e+09,1.79575430782399606704e+09,NULL,NULL,'c5abc4e7336acd03a168a6904038fdd2',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(28,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s027','','run/s027',1000,'9c1e7c033eb221418b451554bfce1eed',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674363160131e+09,1.79575430783227014538e+09,NULL,NULL,'9c1e7c033eb221418b451554bfce1eed',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(29,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s028','','run/s028',1000,'13ddfa059e71c1dba2f21199678819b2',1795754302.0,'STANDARD','done',1,0,'copy',1.79575430674380612369e+09,1.79575430783856272698e+09,NULL,NULL,'13ddfa059e71c1dba2f21199678819b2',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(30,'4104701f-77a5-4eb1-a384-a0730c261614',0,'run/s029','','run/s029',1000,'739bad3e7110283ca62dd8beecce796f',1795754302.0,'STANDARD','pending',0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE "operation_outputs" (
    workflow_uuid TEXT NOT NULL,
    function_id INTEGER NOT NULL,
    function_name TEXT NOT NULL DEFAULT '',
    output TEXT,
    error TEXT,
    child_workflow_id TEXT,
    started_at_epoch_ms INTEGER,
    completed_at_epoch_ms INTEGER,
    serialization TEXT,
    application_name TEXT DEFAULT NULL,
    retention_timestamp INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000),
    PRIMARY KEY (workflow_uuid, function_id)
);
INSERT INTO "operation_outputs" VALUES('4104701f-77a5-4eb1-a384-a0730c261614',1,'plan','null',NULL,NULL,1795754306460,1795754306548,'portable_json','seqferry',1795754306000);
CREATE TABLE queues (
    queue_id TEXT PRIMARY KEY DEFAULT (hex(randomblob(16))),
    name TEXT NOT NULL UNIQUE,
    concurrency INTEGER,
    worker_concurrency INTEGER,
    rate_limit_max INTEGER,
    rate_limit_period_sec REAL,
    priority_enabled BOOLEAN NOT NULL DEFAULT FALSE,
    partition_queue BOOLEAN NOT NULL DEFAULT FALSE,
    polling_interval_sec REAL NOT NULL DEFAULT 1.0,
    created_at INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000),
    updated_at INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000)
, "application_name" TEXT DEFAULT NULL, "partition_concurrency" INTEGER DEFAULT NULL, "partition_worker_concurrency" INTEGER DEFAULT NULL, "partition_rate_limit_max" INTEGER DEFAULT NULL, "partition_rate_limit_period_sec" REAL DEFAULT NULL);
INSERT INTO "queues" VALUES('479D7CD912F73B30F43A39ABFF84C4DB','transfers.ce4408271ae2',NULL,64,NULL,NULL,1,0,0.25,1795754306000,1795754306159,'seqferry',NULL,NULL,NULL,NULL);
INSERT INTO "queues" VALUES('E46D6C756D1C14FAF58B81B69877A5D9','batches.ce4408271ae2',NULL,8,NULL,NULL,1,0,0.25,1795754306000,1795754306165,'seqferry',NULL,NULL,NULL,NULL);
INSERT INTO "queues" VALUES('FCA93BA24054284DC86D2938CD03AD64','schedules',NULL,4,NULL,NULL,1,0,0.25,1795754306000,1795754306170,'seqferry',NULL,NULL,NULL,NULL);
CREATE TABLE sample (
	transfer_id TEXT NOT NULL, 
	executor_id TEXT NOT NULL, 
	at DOUBLE NOT NULL, 
	bytes BIGINT NOT NULL, 
	objects BIGINT NOT NULL, 
	requests BIGINT NOT NULL, 
	throttled BIGINT NOT NULL, 
	PRIMARY KEY (transfer_id, executor_id, at), 
	FOREIGN KEY(transfer_id) REFERENCES transfer (id)
);
CREATE TABLE schedule (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	cron TEXT NOT NULL, 
	timezone TEXT NOT NULL, 
	spec TEXT NOT NULL, 
	priority INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	active_since DOUBLE NOT NULL, 
	revision INTEGER NOT NULL, 
	created_at DOUBLE NOT NULL, 
	created_by TEXT NOT NULL, labels TEXT, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "schedule" VALUES('1d8e4985-388f-454c-936b-76519cd12010','nightly','0 2 * * *','UTC','{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "nightly/", "region": "us-east-1", "type": "s3"}, "strip": "nightly/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "nightly/", "region": "us-east-1", "type": "s3"}, "version": 2}',0,'active',1.79575430805198907853e+09,1,1.79575430805198907853e+09,'ada',NULL);
CREATE TABLE schedule_event (
	schedule_id TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	at DOUBLE NOT NULL, 
	kind TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	data TEXT NOT NULL, 
	previous TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	key_id TEXT, 
	PRIMARY KEY (schedule_id, number)
);
INSERT INTO "schedule_event" VALUES('1d8e4985-388f-454c-936b-76519cd12010',1,'nightly',1.79575430805198907853e+09,'added','ada','{"cron": "0 2 * * *", "name": "nightly", "priority": 0, "spec": "{\"copy_threshold\": 5242880, \"operation\": \"transfer\", \"part_size\": 5242880, \"source\": {\"access\": {\"identity\": {\"proof\": \"751c86810226\", \"source\": \"environment\"}}, \"bucket\": \"the-source\", \"endpoint_url\": \"http://127.0.0.1:9\", \"key\": \"nightly/\", \"region\": \"us-east-1\", \"type\": \"s3\"}, \"strip\": \"nightly/\", \"target\": {\"access\": {\"identity\": {\"proof\": \"751c86810226\", \"source\": \"environment\"}}, \"bucket\": \"the-target\", \"endpoint_url\": \"http://127.0.0.1:9\", \"key\": \"nightly/\", \"region\": \"us-east-1\", \"type\": \"s3\"}, \"version\": 2}", "timezone": "UTC"}','0000000000000000000000000000000000000000000000000000000000000000','2197ea257ad8e7b417765dfa0395b4b1c7357d3cfbfdd515f1e10dcb0fd5c058','6c8a8b9a50cadb90');
CREATE TABLE schedule_run (
	id TEXT NOT NULL, 
	schedule_id TEXT NOT NULL, 
	due_at DOUBLE NOT NULL, 
	at DOUBLE NOT NULL, 
	outcome TEXT NOT NULL, 
	transfer_id TEXT, 
	message TEXT, 
	PRIMARY KEY (id)
);
CREATE TABLE schema_note (
	about TEXT NOT NULL, 
	comment TEXT NOT NULL, 
	PRIMARY KEY (about)
);
INSERT INTO "schema_note" VALUES('dbos','3.4.0');
CREATE TABLE seal (
	transfer_id TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	objects INTEGER NOT NULL, 
	root TEXT NOT NULL, 
	key_id TEXT, 
	mac TEXT NOT NULL, 
	leaves BLOB NOT NULL, 
	archive BLOB, 
	PRIMARY KEY (transfer_id, number), 
	FOREIGN KEY(transfer_id) REFERENCES transfer (id)
);
CREATE TABLE seqferry_schema (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT seqferry_schema_pkc PRIMARY KEY (version_num)
);
INSERT INTO "seqferry_schema" VALUES('0018');
CREATE TABLE streams (
    workflow_uuid TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    "offset" INTEGER NOT NULL, function_id INTEGER NOT NULL DEFAULT 0, "serialization" TEXT DEFAULT NULL,
    PRIMARY KEY (workflow_uuid, key, "offset"),
    FOREIGN KEY (workflow_uuid) REFERENCES workflow_status(workflow_uuid) 
        ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE TABLE submission_key (
	"key" TEXT NOT NULL, 
	transfer_id TEXT NOT NULL, 
	PRIMARY KEY ("key"), 
	FOREIGN KEY(transfer_id) REFERENCES transfer (id)
);
CREATE TABLE tally (
	transfer_id TEXT NOT NULL, 
	objects BIGINT NOT NULL, 
	bytes BIGINT NOT NULL, 
	done BIGINT NOT NULL, 
	skipped BIGINT NOT NULL, 
	failed BIGINT NOT NULL, 
	cancelled BIGINT NOT NULL, 
	bytes_done BIGINT NOT NULL, 
	PRIMARY KEY (transfer_id), 
	FOREIGN KEY(transfer_id) REFERENCES transfer (id)
);
INSERT INTO "tally" VALUES('4104701f-77a5-4eb1-a384-a0730c261614',30,30000,29,0,0,0,29000);
INSERT INTO "tally" VALUES('c9a6f021-11bc-438e-82ea-80b7b46ace4e',0,0,0,0,0,0,0);
INSERT INTO "tally" VALUES('df9ecbb9-b02e-44e0-849e-d0ddd50815bc',0,0,0,0,0,0,0);
CREATE TABLE transfer (
	id TEXT NOT NULL, 
	state TEXT NOT NULL, 
	spec TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	created_by TEXT NOT NULL, 
	started_at DOUBLE, 
	planned_at DOUBLE, 
	ended_at DOUBLE, 
	idempotency_key TEXT, 
	error_code TEXT, 
	error_message TEXT, 
	target_absent BOOLEAN, 
	attended_by TEXT, needs TEXT, lane TEXT, waits_for TEXT, submission TEXT, target_place TEXT, blocked_by TEXT, target_prefix TEXT, turn BIGINT, source_uri TEXT, target_uri TEXT, receipt_digest TEXT, pruned_at DOUBLE, retry_of TEXT, priority INTEGER DEFAULT '0' NOT NULL, max_requests INTEGER, max_bandwidth TEXT, tpslimit INTEGER, name TEXT, labels TEXT, 
	PRIMARY KEY (id), 
	UNIQUE (idempotency_key)
);
INSERT INTO "transfer" VALUES('4104701f-77a5-4eb1-a384-a0730c261614','running','{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "strip": "run/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "version": 2}',1.79575430450657582285e+09,'ada',1.79575430646201062204e+09,1.79575430653708553317e+09,NULL,NULL,NULL,NULL,1,'host-5258-3167395c','[{"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}, {"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}]','ce4408271ae2',NULL,'6dc6442b99f5090c9031ac6b083547bfd790b44569525fb367e2417621aa1222','http://localhost:38535 the-target',NULL,'run/',1,'s3://the-source/run/','s3://the-target/run/',NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transfer" VALUES('c9a6f021-11bc-438e-82ea-80b7b46ace4e','paused','{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "strip": "paused/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "version": 2}',1.79575430797342252726e+09,'ada',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'[{"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}, {"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}]','ce4408271ae2',NULL,'50d6df13c7cc1bd5a59afb805f27f5b4812b043b438d01ea6e142284b005986e','http://localhost:38535 the-target',NULL,'paused/',2,'s3://the-source/paused/','s3://the-target/paused/',NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transfer" VALUES('df9ecbb9-b02e-44e0-849e-d0ddd50815bc','queued','{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "strip": "queued/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "version": 2}',1.79575430808791708945e+09,'ada',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'[{"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}, {"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}]','ce4408271ae2',NULL,'d6e2c0144fc5a3f9c7cb72ffa3e78cccaf6c3f8ce20ca84d8728c858bfc13ea0','http://localhost:38535 the-target',NULL,'queued/',3,'s3://the-source/queued/','s3://the-target/queued/',NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE worker (
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	host TEXT NOT NULL, 
	pid INTEGER NOT NULL, 
	version TEXT NOT NULL, 
	schema_head TEXT NOT NULL, 
	shape TEXT NOT NULL, 
	since DOUBLE NOT NULL, 
	seen_at DOUBLE NOT NULL, 
	beats BIGINT NOT NULL, 
	gone_at DOUBLE, 
	lanes TEXT NOT NULL, 
	limits TEXT NOT NULL, 
	resident BIGINT, 
	transfers INTEGER NOT NULL, 
	in_flight INTEGER NOT NULL, 
	windows TEXT NOT NULL, 
	facts TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "worker" VALUES('host-5258-3167395c@9f08739d2e35.5258.5557461','worker','host',5258,'0.1.0','0018','1',1.79575430569145917895e+09,1.79575430569145917895e+09,1,NULL,'[]','null',NULL,0,0,'[]','{"own_work": false}');
CREATE TABLE worker_live (
	transfer_id TEXT NOT NULL, 
	executor_id TEXT NOT NULL, 
	at DOUBLE NOT NULL, 
	data TEXT NOT NULL, 
	PRIMARY KEY (transfer_id, executor_id), 
	FOREIGN KEY(transfer_id) REFERENCES transfer (id)
);
INSERT INTO "worker_live" VALUES('4104701f-77a5-4eb1-a384-a0730c261614','sqlite',1.79575430719560599325e+09,'{"bytes": 1000, "objects": 1, "bytes_in_progress": 0, "bytes_per_second": 0.0, "in_flight": 29, "requests": 32, "retries": 0, "throttled": 0, "slowest": [{"key": "run/s029", "size": 1000, "bytes_done": 0, "seconds": 0.454275497}, {"key": "run/s000", "size": 1000, "bytes_done": 0, "seconds": 0.453944196}, {"key": "run/s001", "size": 1000, "bytes_done": 0, "seconds": 0.453888463}, {"key": "run/s002", "size": 1000, "bytes_done": 0, "seconds": 0.453831678}, {"key": "run/s003", "size": 1000, "bytes_done": 0, "seconds": 0.453786281}]}');
CREATE TABLE workflow_events (
    workflow_uuid TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL, "serialization" TEXT DEFAULT NULL,
    PRIMARY KEY (workflow_uuid, key),
    FOREIGN KEY (workflow_uuid) REFERENCES workflow_status(workflow_uuid) 
        ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE TABLE workflow_events_history (
    workflow_uuid TEXT NOT NULL,
    function_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL, "serialization" TEXT DEFAULT NULL,
    PRIMARY KEY (workflow_uuid, function_id, key),
    FOREIGN KEY (workflow_uuid) REFERENCES workflow_status(workflow_uuid)
        ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE TABLE workflow_input (
    workflow_uuid TEXT NOT NULL PRIMARY KEY,
    inputs TEXT,
    retention_timestamp INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000)
);
INSERT INTO "workflow_input" VALUES('4104701f-77a5-4eb1-a384-a0730c261614','{"namedArgs":{},"positionalArgs":["4104701f-77a5-4eb1-a384-a0730c261614"]}',1795754304000);
INSERT INTO "workflow_input" VALUES('4104701f-77a5-4eb1-a384-a0730c261614:b000000','{"namedArgs":{},"positionalArgs":["4104701f-77a5-4eb1-a384-a0730c261614",0]}',1795754306000);
INSERT INTO "workflow_input" VALUES('c9a6f021-11bc-438e-82ea-80b7b46ace4e','{"namedArgs":{},"positionalArgs":["c9a6f021-11bc-438e-82ea-80b7b46ace4e"]}',1795754307000);
INSERT INTO "workflow_input" VALUES('df9ecbb9-b02e-44e0-849e-d0ddd50815bc','{"namedArgs":{},"positionalArgs":["df9ecbb9-b02e-44e0-849e-d0ddd50815bc"]}',1795754308000);
CREATE TABLE workflow_output (
    workflow_uuid TEXT NOT NULL PRIMARY KEY,
    output TEXT,
    error TEXT,
    retention_timestamp INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000)
);
CREATE TABLE workflow_schedules (
    schedule_id TEXT PRIMARY KEY,
    schedule_name TEXT NOT NULL UNIQUE,
    workflow_name TEXT NOT NULL,
    workflow_class_name TEXT,
    schedule TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'ACTIVE',
    context TEXT NOT NULL
, "last_fired_at" TEXT DEFAULT NULL, "automatic_backfill" BOOLEAN NOT NULL DEFAULT FALSE, "cron_timezone" TEXT DEFAULT NULL, "queue_name" TEXT DEFAULT NULL, "application_name" TEXT DEFAULT NULL);
CREATE TABLE workflow_status (
    workflow_uuid TEXT PRIMARY KEY,
    status TEXT,
    name TEXT,
    authenticated_user TEXT,
    assumed_role TEXT,
    authenticated_roles TEXT,
    request TEXT,
    output TEXT,
    error TEXT,
    executor_id TEXT,
    created_at INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000),
    updated_at INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000),
    application_version TEXT,
    application_id TEXT,
    class_name TEXT DEFAULT NULL,
    config_name TEXT DEFAULT NULL,
    recovery_attempts INTEGER DEFAULT 0,
    queue_name TEXT,
    workflow_timeout_ms INTEGER,
    workflow_deadline_epoch_ms INTEGER,
    inputs TEXT,
    started_at_epoch_ms INTEGER,
    deduplication_id TEXT,
    priority INTEGER NOT NULL DEFAULT 0
, queue_partition_key TEXT, forked_from TEXT, "owner_xid" TEXT DEFAULT NULL, "parent_workflow_id" TEXT DEFAULT NULL, "serialization" TEXT DEFAULT NULL, "delay_until_epoch_ms" BIGINT DEFAULT NULL, "was_forked_from" BOOLEAN NOT NULL DEFAULT FALSE, "rate_limited" BOOLEAN NOT NULL DEFAULT FALSE, "completed_at" BIGINT, "attributes" TEXT, "schedule_name" TEXT, "debounce_deadline_epoch_ms" BIGINT DEFAULT NULL, "is_debounced" BOOLEAN NOT NULL DEFAULT FALSE, "application_name" TEXT DEFAULT NULL, "creator_xid" TEXT DEFAULT NULL);
INSERT INTO "workflow_status" VALUES('4104701f-77a5-4eb1-a384-a0730c261614','PENDING','transfer',NULL,NULL,NULL,NULL,NULL,NULL,'sqlite',1795754304000,1795754306000,'1',NULL,NULL,NULL,1,'transfers.ce4408271ae2',NULL,NULL,NULL,1795754306000,NULL,641,NULL,NULL,'ff2e53e6-3bac-4ae6-9a7e-2bf69aaacdd8',NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'seqferry','7feffeaf-8dbe-4509-b2df-011861807ec4');
INSERT INTO "workflow_status" VALUES('4104701f-77a5-4eb1-a384-a0730c261614:b000000','PENDING','batch',NULL,NULL,NULL,NULL,NULL,NULL,'sqlite',1795754306000,1795754306000,'1',NULL,NULL,NULL,1,'batches.ce4408271ae2',NULL,NULL,NULL,1795754306000,NULL,681,NULL,NULL,'6e0dada8-e3d7-4269-8bfc-89c8f4c8f63c',NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'seqferry','487870ec-cccc-4515-a956-b76d0713e479');
INSERT INTO "workflow_status" VALUES('c9a6f021-11bc-438e-82ea-80b7b46ace4e','ENQUEUED','transfer',NULL,NULL,NULL,NULL,NULL,NULL,'sqlite',1795754307000,1795754308038,'1',NULL,NULL,NULL,1,'transfers.paused',NULL,NULL,NULL,NULL,NULL,641,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'seqferry','c601b2c7-1a08-4190-914a-682342159aea');
INSERT INTO "workflow_status" VALUES('df9ecbb9-b02e-44e0-849e-d0ddd50815bc','ENQUEUED','transfer',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795754308000,1795754308000,'1',NULL,NULL,NULL,0,'transfers.ce4408271ae2',NULL,NULL,NULL,NULL,NULL,641,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'seqferry','ba62913c-d056-431d-8c16-03d66870c10d');
CREATE INDEX workflow_status_created_at_index ON workflow_status (created_at);
CREATE INDEX idx_workflow_topic ON notifications (destination_uuid, topic);
CREATE INDEX "idx_workflow_status_delayed" ON "workflow_status" ("delay_until_epoch_ms") WHERE status = 'DELAYED';
CREATE INDEX "idx_workflow_status_forked_from" ON "workflow_status" ("forked_from") WHERE "forked_from" IS NOT NULL;
CREATE INDEX "idx_workflow_status_parent_workflow_id" ON "workflow_status" ("parent_workflow_id") WHERE "parent_workflow_id" IS NOT NULL;
CREATE UNIQUE INDEX "uq_workflow_status_dedup_id" ON "workflow_status" ("queue_name", "deduplication_id") WHERE "deduplication_id" IS NOT NULL;
CREATE INDEX "idx_workflow_status_pending" ON "workflow_status" ("created_at") WHERE "status" = 'PENDING';
CREATE INDEX "idx_workflow_status_failed" ON "workflow_status" ("status", "created_at") WHERE "status" IN ('ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED');
CREATE INDEX "idx_workflow_status_rate_limited" ON "workflow_status" ("queue_name", "started_at_epoch_ms") WHERE "rate_limited" = TRUE;
CREATE INDEX "idx_workflow_status_completed_at" ON "workflow_status" ("completed_at") WHERE "completed_at" IS NOT NULL;
CREATE INDEX "idx_workflow_status_started_at" ON "workflow_status" ("started_at_epoch_ms") WHERE "started_at_epoch_ms" IS NOT NULL;
CREATE INDEX "idx_workflow_status_schedule_name" ON "workflow_status" ("schedule_name") WHERE "schedule_name" IS NOT NULL;
CREATE UNIQUE INDEX "uq_application_versions_owner_version"
    ON application_versions ("application_name", "version_name")
    WHERE "application_name" IS NOT NULL;
CREATE UNIQUE INDEX "uq_application_versions_unclaimed_version"
    ON application_versions ("version_name")
    WHERE "application_name" IS NULL;
CREATE INDEX idx_workflow_input_retention
    ON workflow_input (retention_timestamp);
CREATE INDEX idx_workflow_output_retention
    ON workflow_output (retention_timestamp);
CREATE INDEX idx_operation_outputs_retention
    ON operation_outputs (retention_timestamp);
CREATE INDEX "idx_workflow_status_in_flight_v2" ON "workflow_status" ("queue_name", "status", "priority", "created_at", "application_name") WHERE "status" IN ('ENQUEUED', 'PENDING');
CREATE INDEX "idx_workflow_status_partition_dequeue_v3" ON "workflow_status" ("queue_name", "status", "queue_partition_key", "priority", "created_at", "workflow_uuid", "application_name") WHERE "status" IN ('ENQUEUED', 'PENDING') AND "queue_partition_key" IS NOT NULL;
CREATE INDEX "idx_operation_outputs_completed_at_function_name_v2" ON "operation_outputs" ("completed_at_epoch_ms", "function_name", "application_name");
CREATE INDEX "idx_workflow_status_deadline" ON "workflow_status" ("workflow_deadline_epoch_ms") WHERE "status" IN ('ENQUEUED', 'PENDING', 'DELAYED') AND "workflow_deadline_epoch_ms" IS NOT NULL;
CREATE INDEX "idx_application_versions_timestamp" ON "application_versions" ("version_timestamp" DESC);
CREATE INDEX "idx_application_versions_owner_timestamp" ON "application_versions" ("application_name", "version_timestamp" DESC);
CREATE INDEX ix_transfer_created ON transfer (created_at);
CREATE INDEX ix_batch_state ON batch (transfer_id, state);
CREATE INDEX ix_object_page ON object (transfer_id, id);
CREATE INDEX ix_object_batch ON object (transfer_id, batch_number);
CREATE INDEX ix_object_failed ON object (transfer_id, id) WHERE error_class IS NOT NULL;
CREATE INDEX ix_transfer_turn ON transfer (turn) WHERE ended_at IS NULL;
CREATE INDEX ix_transfer_submission ON transfer (submission) WHERE ended_at IS NULL;
CREATE INDEX ix_transfer_target ON transfer (target_place, target_prefix) WHERE ended_at IS NULL;
CREATE INDEX ix_ledger_transfer ON ledger (transfer_id);
CREATE INDEX ix_transfer_retry_of ON transfer (retry_of);
CREATE INDEX ix_schedule_run ON schedule_run (schedule_id, at);
CREATE INDEX ix_schedule_event_name ON schedule_event (name);
CREATE INDEX ix_notice_due ON notice (state, next_at);
CREATE INDEX ix_transfer_name ON transfer (name);
COMMIT;
