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
INSERT INTO "application_versions" VALUES('c7079453-0a85-40bb-99d4-df60aef89fa1','1',1795714798000,1795714798000,'seqferry');
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
	ended_at DOUBLE, 
	PRIMARY KEY (transfer_id, number), 
	FOREIGN KEY(transfer_id) REFERENCES transfer (id)
);
INSERT INTO "batch" VALUES('5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'active',30,30000,29,0,0,0,29000,1,0,1.79571479869585919376e+09,NULL);
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
INSERT INTO "event" VALUES('5ae25d53-926f-41a6-8ac1-08bd16edaa0c',1,1.79571479598117399213e+09,'submitted','ada','{"spec": {"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "strip": "run/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "version": 2}}','0000000000000000000000000000000000000000000000000000000000000000','018af5a370d0e44bfadaa96e3b0dbd5df68b1ba3655615c9fa8df9344d6768a4','574604e9e2979416');
INSERT INTO "event" VALUES('5ae25d53-926f-41a6-8ac1-08bd16edaa0c',2,1.79571479845848393439e+09,'started','worker host-23965-d36eb852','{}','018af5a370d0e44bfadaa96e3b0dbd5df68b1ba3655615c9fa8df9344d6768a4','fa90a59dd521f11f0b149ecab92876fdcb748692f6dfb0e159866cf79ca6dcde','574604e9e2979416');
INSERT INTO "event" VALUES('5ae25d53-926f-41a6-8ac1-08bd16edaa0c',3,1.79571479857396411891e+09,'planned','worker host-23965-d36eb852','{"bytes": 30000, "objects": 30}','fa90a59dd521f11f0b149ecab92876fdcb748692f6dfb0e159866cf79ca6dcde','fafe1caf401bbd4fd3f766ff84f6cba14b82e3e8848ef83ab4a619aa6843220a','574604e9e2979416');
INSERT INTO "event" VALUES('64d71938-a449-412f-9e2e-f9a59aaa8d5c',1,1.79571479909694981576e+09,'submitted','ada','{"spec": {"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "strip": "paused/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "version": 2}}','0000000000000000000000000000000000000000000000000000000000000000','dad51d960b829a89c07194912845194da06e77bb515d3a6e2985a1447c34dff6','574604e9e2979416');
INSERT INTO "event" VALUES('64d71938-a449-412f-9e2e-f9a59aaa8d5c',2,1.79571479913604235651e+09,'paused','ada','{}','dad51d960b829a89c07194912845194da06e77bb515d3a6e2985a1447c34dff6','2eb152805fabeaa5b5e41a68932ac7279006f8d09923b3b3d16b13fd46e9068c','574604e9e2979416');
INSERT INTO "event" VALUES('c5dec610-2606-47a4-9873-5d92eccf2b24',1,1.79571479917271542548e+09,'submitted','ada','{"spec": {"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "strip": "queued/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "version": 2}}','0000000000000000000000000000000000000000000000000000000000000000','2b021698623fffcc36fa168d50512feb5b93059dd2761734c5afa5978766da1f','574604e9e2979416');
CREATE TABLE executor_beat (
	executor_id TEXT NOT NULL, 
	beat_at DATETIME NOT NULL, counter BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (executor_id)
);
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
INSERT INTO "ledger" VALUES(1,1.79571479598117399213e+09,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',1,'submitted','018af5a370d0e44bfadaa96e3b0dbd5df68b1ba3655615c9fa8df9344d6768a4','574604e9e2979416','0000000000000000000000000000000000000000000000000000000000000000','489a56148c21ab6bba679989043195724131dad201a54fa0e05d123fd870dfcb');
INSERT INTO "ledger" VALUES(2,1.79571479909694981576e+09,'64d71938-a449-412f-9e2e-f9a59aaa8d5c',1,'submitted','dad51d960b829a89c07194912845194da06e77bb515d3a6e2985a1447c34dff6','574604e9e2979416','489a56148c21ab6bba679989043195724131dad201a54fa0e05d123fd870dfcb','a69d221d32858ee69728fe28171a7377817cd4e97cfa27f15ca777e5fba8fccd');
INSERT INTO "ledger" VALUES(3,1.79571479917271542548e+09,'c5dec610-2606-47a4-9873-5d92eccf2b24',1,'submitted','2b021698623fffcc36fa168d50512feb5b93059dd2761734c5afa5978766da1f','574604e9e2979416','a69d221d32858ee69728fe28171a7377817cd4e97cfa27f15ca777e5fba8fccd','2e6a41bd42703cdde0f89b642f084e7463e93321426eaa5b360e59c0971f9f04');
CREATE TABLE notice (
	transfer_id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	episode BIGINT NOT NULL, 
	channel TEXT NOT NULL, 
	state TEXT NOT NULL, 
	attempts INTEGER DEFAULT '0' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	next_at DOUBLE NOT NULL, 
	sent_at DOUBLE, 
	error TEXT, 
	PRIMARY KEY (transfer_id, kind, episode, channel)
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
INSERT INTO "object" VALUES(1,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s000','','run/s000',1000,'742ddb9d181b57fcacaa72438402aee4',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870056128504e+09,1.79571479892420840258e+09,NULL,NULL,'742ddb9d181b57fcacaa72438402aee4',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(2,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s001','','run/s001',1000,'c8d1d963be2de1688155c0d308967e5e',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870204615599e+09,1.79571479882185769082e+09,NULL,NULL,'c8d1d963be2de1688155c0d308967e5e',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(3,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s002','','run/s002',1000,'e1e06e2b080235b7081ad31a7a5ab4a0',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870393872256e+09,1.79571479886994671824e+09,NULL,NULL,'e1e06e2b080235b7081ad31a7a5ab4a0',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(4,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s003','','run/s003',1000,'2d8a5f494cfe4ffe32fad831ede47515',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870400857927e+09,1.7957147988437259197e+09,NULL,NULL,'2d8a5f494cfe4ffe32fad831ede47515',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(5,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s004','','run/s004',1000,'149591484b572f06655c09d225d56a77',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870404076576e+09,1.79571479883589291571e+09,NULL,NULL,'149591484b572f06655c09d225d56a77',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(6,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s005','','run/s005',1000,'d7f32a0e260c266cfd2e71df104f90cd',1795714795.0,'STANDARD','done',1,0,'copy',1.7957147987040679455e+09,1.79571479882833313947e+09,NULL,NULL,'d7f32a0e260c266cfd2e71df104f90cd',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(7,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s006','','run/s006',1000,'498c4393c7c61f899b7c88829fd67c5c',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870409822466e+09,1.79571479884294605252e+09,NULL,NULL,'498c4393c7c61f899b7c88829fd67c5c',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(8,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s007','','run/s007',1000,'c785f46feed7afd0f21d6b15136c859c',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870412755016e+09,1.79571479883535218237e+09,NULL,NULL,'c785f46feed7afd0f21d6b15136c859c',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(9,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s008','','run/s008',1000,'1c193593e83839fbf503e0703d3e5dbb',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870415449137e+09,1.7957147988436863422e+09,NULL,NULL,'1c193593e83839fbf503e0703d3e5dbb',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(10,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s009','','run/s009',1000,'d0e1cab941ed40b9be252f02244aae80',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870418524741e+09,1.79571479887079191208e+09,NULL,NULL,'d0e1cab941ed40b9be252f02244aae80',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(11,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s010','','run/s010',1000,'5fd121114ca8eb0d215df83d67f3d0cb',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870427036292e+09,1.79571479886955547335e+09,NULL,NULL,'5fd121114ca8eb0d215df83d67f3d0cb',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(12,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s011','','run/s011',1000,'92749faf21e2523a14bdac810370e25c',1795714795.0,'STANDARD','done',1,0,'copy',1.7957147987043159008e+09,1.79571479884363913539e+09,NULL,NULL,'92749faf21e2523a14bdac810370e25c',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(13,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s012','','run/s012',1000,'e87a53d05322d92c5b3a6bfc623bd37a',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870436024662e+09,1.79571479886951184271e+09,NULL,NULL,'e87a53d05322d92c5b3a6bfc623bd37a',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(14,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s013','','run/s013',1000,'529a79c9899739651e84f1fa3afb919d',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870440173145e+09,1.79571479887032532697e+09,NULL,NULL,'529a79c9899739651e84f1fa3afb919d',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(15,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s014','','run/s014',1000,'265d2657cd8ed41d0044be243260795f',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870444393155e+09,1.79571479887014412877e+09,NULL,NULL,'265d2657cd8ed41d0044be243260795f',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(16,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s015','','run/s015',1000,'84b14ba2b0e6a71e1d50307a003e7919',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870448851585e+09,1.79571479888306164739e+09,NULL,NULL,'84b14ba2b0e6a71e1d50307a003e7919',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(17,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s016','','run/s016',1000,'fe0338ab18d549f1bc178dc376c122da',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870453524583e+09,1.7957147988789308071e+09,NULL,NULL,'fe0338ab18d549f1bc178dc376c122da',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(18,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s017','','run/s017',1000,'6c80a10b0a9d694429de8722eabea0b1',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870457100871e+09,1.79571479887900567048e+09,NULL,NULL,'6c80a10b0a9d694429de8722eabea0b1',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(19,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s018','','run/s018',1000,'475a23029b8faf879e20e93da327de30',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870461297037e+09,1.79571479887905764575e+09,NULL,NULL,'475a23029b8faf879e20e93da327de30',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(20,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s019','','run/s019',1000,'82c4ddeb98530d856f64cd09e3be9545',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870465087894e+09,1.79571479887024331098e+09,NULL,NULL,'82c4ddeb98530d856f64cd09e3be9545',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(21,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s020','','run/s020',1000,'9e29fb627ea3b59583e46eac90d1e722',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870470333099e+09,1.7957147988704268933e+09,NULL,NULL,'9e29fb627ea3b59583e46eac90d1e722',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(22,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s021','','run/s021',1000,'eb09c4d5ff5c369acf57c51309e66fe2',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870474481586e+09,1.79571479887038803102e+09,NULL,NULL,'eb09c4d5ff5c369acf57c51309e66fe2',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(23,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s022','','run/s022',1000,'83f508f81049eb3d2d00c6afe15a8e01',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870479106897e+09,1.79571479886999487872e+09,NULL,NULL,'83f508f81049eb3d2d00c6afe15a8e01',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(24,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s023','','run/s023',1000,'7d8e7ef94e30de25522e16c2f6b1cbf0',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870482945441e+09,1.79571479884376144411e+09,NULL,NULL,'7d8e7ef94e30de25522e16c2f6b1cbf0',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(25,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s024','','run/s024',1000,'3472dbe474a10e985e6a3838e97df820',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479870486974718e+09,1.79571479887068176264e+09,NULL,NULL,'3472dbe474a10e985e6a3838e97df820',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(26,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s025','','run/s025',1000,'d85e2429d9b97220cd883d6e4dae1e5e',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479871091365821e+09,1.79571479887007904056e+09,NULL,NULL,'d85e2429d9b97220cd883d6e4dae1e5e',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(27,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s026','','run/s026',1000,'c5abc4e7336acd03a168a6904038fdd2',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479871078729627e+09,1.79571479886944103234e+09,NULL,NULL,'c5abc4e7336acd03a168a6904038fdd2',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(28,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s027','','run/s027',1000,'9c1e7c033eb221418b451554bfce1eed',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479871097230908e+09,1.79571479887072658543e+09,NULL,NULL,'9c1e7c033eb221418b451554bfce1eed',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(29,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s028','','run/s028',1000,'13ddfa059e71c1dba2f21199678819b2',1795714795.0,'STANDARD','done',1,0,'copy',1.79571479871101570124e+09,1795714798.87076,NULL,NULL,'13ddfa059e71c1dba2f21199678819b2',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(30,'5ae25d53-926f-41a6-8ac1-08bd16edaa0c',0,'run/s029','','run/s029',1000,'739bad3e7110283ca62dd8beecce796f',1795714795.0,'STANDARD','pending',0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
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
INSERT INTO "operation_outputs" VALUES('5ae25d53-926f-41a6-8ac1-08bd16edaa0c',1,'plan','null',NULL,NULL,1795714798452,1795714798576,'portable_json','seqferry',1795714798000);
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
INSERT INTO "queues" VALUES('6D7B7AE993D4E009DFD48A407166392C','transfers.ce4408271ae2',NULL,64,NULL,NULL,1,0,0.25,1795714798000,1795714798060,'seqferry',NULL,NULL,NULL,NULL);
INSERT INTO "queues" VALUES('082157A6E39F5C45348D1764586437CD','batches.ce4408271ae2',NULL,8,NULL,NULL,1,0,0.25,1795714798000,1795714798075,'seqferry',NULL,NULL,NULL,NULL);
INSERT INTO "queues" VALUES('54D0445DC8B81E18E90ADCB0A2E0CE4A','schedules',NULL,4,NULL,NULL,1,0,0.25,1795714798000,1795714798076,'seqferry',NULL,NULL,NULL,NULL);
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
	created_by TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "schedule" VALUES('e9865ff0-553d-40fc-ab34-bd07d486595a','nightly','0 2 * * *','UTC','{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "nightly/", "region": "us-east-1", "type": "s3"}, "strip": "nightly/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "nightly/", "region": "us-east-1", "type": "s3"}, "version": 2}',0,'active',1.79571479919877982135e+09,1,1.79571479919877982135e+09,'ada');
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
INSERT INTO "schedule_event" VALUES('e9865ff0-553d-40fc-ab34-bd07d486595a',1,'nightly',1.79571479919877982135e+09,'added','ada','{"cron": "0 2 * * *", "name": "nightly", "priority": 0, "spec": "{\"copy_threshold\": 5242880, \"operation\": \"transfer\", \"part_size\": 5242880, \"source\": {\"access\": {\"identity\": {\"proof\": \"751c86810226\", \"source\": \"environment\"}}, \"bucket\": \"the-source\", \"endpoint_url\": \"http://127.0.0.1:9\", \"key\": \"nightly/\", \"region\": \"us-east-1\", \"type\": \"s3\"}, \"strip\": \"nightly/\", \"target\": {\"access\": {\"identity\": {\"proof\": \"751c86810226\", \"source\": \"environment\"}}, \"bucket\": \"the-target\", \"endpoint_url\": \"http://127.0.0.1:9\", \"key\": \"nightly/\", \"region\": \"us-east-1\", \"type\": \"s3\"}, \"version\": 2}", "timezone": "UTC"}','0000000000000000000000000000000000000000000000000000000000000000','e67ec876f48bfee92bfcdec6a2d23ec63703761bfa65b77fe07d4ef57d37e471','574604e9e2979416');
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
INSERT INTO "seqferry_schema" VALUES('0014');
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
INSERT INTO "tally" VALUES('5ae25d53-926f-41a6-8ac1-08bd16edaa0c',30,30000,29,0,0,0,29000);
INSERT INTO "tally" VALUES('64d71938-a449-412f-9e2e-f9a59aaa8d5c',0,0,0,0,0,0,0);
INSERT INTO "tally" VALUES('c5dec610-2606-47a4-9873-5d92eccf2b24',0,0,0,0,0,0,0);
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
	attended_by TEXT, needs TEXT, lane TEXT, waits_for TEXT, submission TEXT, target_place TEXT, blocked_by TEXT, target_prefix TEXT, turn BIGINT, source_uri TEXT, target_uri TEXT, receipt_digest TEXT, pruned_at DOUBLE, retry_of TEXT, priority INTEGER DEFAULT '0' NOT NULL, max_requests INTEGER, max_bandwidth TEXT, tpslimit INTEGER, 
	PRIMARY KEY (id), 
	UNIQUE (idempotency_key)
);
INSERT INTO "transfer" VALUES('5ae25d53-926f-41a6-8ac1-08bd16edaa0c','running','{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "strip": "run/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "version": 2}',1.79571479598117399213e+09,'ada',1.79571479845848393439e+09,1.79571479857396411891e+09,NULL,NULL,NULL,NULL,1,'host-23965-d36eb852','[{"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}, {"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}]','ce4408271ae2',NULL,'089839f249e01178d2fa598d04eec022ffadd7212b18c552b8bec708b40699b6','http://localhost:38739 the-target',NULL,'run/',1,'s3://the-source/run/','s3://the-target/run/',NULL,NULL,NULL,0,NULL,NULL,NULL);
INSERT INTO "transfer" VALUES('64d71938-a449-412f-9e2e-f9a59aaa8d5c','paused','{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "strip": "paused/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "version": 2}',1.79571479909694981576e+09,'ada',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'[{"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}, {"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}]','ce4408271ae2',NULL,'b1456b79d25e48af223c19f246d865f6e729d3a6994797495bbe034723eabf9d','http://localhost:38739 the-target',NULL,'paused/',2,'s3://the-source/paused/','s3://the-target/paused/',NULL,NULL,NULL,0,NULL,NULL,NULL);
INSERT INTO "transfer" VALUES('c5dec610-2606-47a4-9873-5d92eccf2b24','queued','{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "strip": "queued/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "version": 2}',1.79571479917271542548e+09,'ada',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'[{"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}, {"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}]','ce4408271ae2',NULL,'63ad7f59ce9c0c8a5c1241f1bff525bf26fc1c73108061c1d1295ca0af320001','http://localhost:38739 the-target',NULL,'queued/',3,'s3://the-source/queued/','s3://the-target/queued/',NULL,NULL,NULL,0,NULL,NULL,NULL);
CREATE TABLE worker_live (
	transfer_id TEXT NOT NULL, 
	executor_id TEXT NOT NULL, 
	at DOUBLE NOT NULL, 
	data TEXT NOT NULL, 
	PRIMARY KEY (transfer_id, executor_id), 
	FOREIGN KEY(transfer_id) REFERENCES transfer (id)
);
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
INSERT INTO "workflow_input" VALUES('5ae25d53-926f-41a6-8ac1-08bd16edaa0c','{"namedArgs":{},"positionalArgs":["5ae25d53-926f-41a6-8ac1-08bd16edaa0c"]}',1795714796000);
INSERT INTO "workflow_input" VALUES('5ae25d53-926f-41a6-8ac1-08bd16edaa0c:b000000','{"namedArgs":{},"positionalArgs":["5ae25d53-926f-41a6-8ac1-08bd16edaa0c",0]}',1795714798000);
INSERT INTO "workflow_input" VALUES('64d71938-a449-412f-9e2e-f9a59aaa8d5c','{"namedArgs":{},"positionalArgs":["64d71938-a449-412f-9e2e-f9a59aaa8d5c"]}',1795714799000);
INSERT INTO "workflow_input" VALUES('c5dec610-2606-47a4-9873-5d92eccf2b24','{"namedArgs":{},"positionalArgs":["c5dec610-2606-47a4-9873-5d92eccf2b24"]}',1795714799000);
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
INSERT INTO "workflow_status" VALUES('5ae25d53-926f-41a6-8ac1-08bd16edaa0c','PENDING','transfer',NULL,NULL,NULL,NULL,NULL,NULL,'sqlite',1795714796000,1795714798000,'1',NULL,NULL,NULL,1,'transfers.ce4408271ae2',NULL,NULL,NULL,1795714798000,NULL,641,NULL,NULL,'64e0336e-90f2-4010-bc99-6183238ff313',NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'seqferry','b3714253-588f-4b4c-ac37-d6adabb9bf55');
INSERT INTO "workflow_status" VALUES('5ae25d53-926f-41a6-8ac1-08bd16edaa0c:b000000','PENDING','batch',NULL,NULL,NULL,NULL,NULL,NULL,'sqlite',1795714798000,1795714798000,'1',NULL,NULL,NULL,1,'batches.ce4408271ae2',NULL,NULL,NULL,1795714798000,NULL,681,NULL,NULL,'b1d2df39-e465-4e71-a30e-9c3999f29423',NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'seqferry','532ee52f-ab05-4cae-90a4-c71ab51b7e24');
INSERT INTO "workflow_status" VALUES('64d71938-a449-412f-9e2e-f9a59aaa8d5c','ENQUEUED','transfer',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795714799000,1795714799000,'1',NULL,NULL,NULL,0,'transfers.paused',NULL,NULL,NULL,NULL,NULL,641,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'seqferry','3245a96f-600e-49ac-9e51-bcae13f32fe1');
INSERT INTO "workflow_status" VALUES('c5dec610-2606-47a4-9873-5d92eccf2b24','ENQUEUED','transfer',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795714799000,1795714799000,'1',NULL,NULL,NULL,0,'transfers.ce4408271ae2',NULL,NULL,NULL,NULL,NULL,641,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'seqferry','19880f10-7dd9-4271-9a5d-849ab600ddea');
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
CREATE INDEX ix_notice_due ON notice (state, next_at);
CREATE INDEX ix_schedule_run ON schedule_run (schedule_id, at);
CREATE INDEX ix_schedule_event_name ON schedule_event (name);
COMMIT;
