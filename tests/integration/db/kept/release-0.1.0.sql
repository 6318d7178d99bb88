BEGIN TRANSACTION;
CREATE TABLE allotment (
	name TEXT NOT NULL, 
	worker_id TEXT NOT NULL, 
	amount BIGINT NOT NULL, 
	until DOUBLE NOT NULL, 
	PRIMARY KEY (name, worker_id)
);
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
INSERT INTO "application_versions" VALUES('c02da7df-366d-48d0-a2a5-d1286325576a','1',1795942628000,1795942628000,'seqferry');
CREATE TABLE autoscale_limit (
	name TEXT NOT NULL, 
	value DOUBLE NOT NULL, 
	PRIMARY KEY (name)
);
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
	requests BIGINT DEFAULT '0' NOT NULL, 
	started_at DOUBLE, 
	ended_at DOUBLE, 
	PRIMARY KEY (transfer_id, number), 
	FOREIGN KEY(transfer_id) REFERENCES transfer (id)
);
INSERT INTO "batch" VALUES('40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'active',30,30000,29,0,0,0,29000,1,0,0,1.79594263015217518808e+09,NULL);
CREATE TABLE chart (
	transfer_id TEXT NOT NULL, 
	since DOUBLE NOT NULL, 
	until DOUBLE NOT NULL, 
	points TEXT NOT NULL, 
	PRIMARY KEY (transfer_id), 
	FOREIGN KEY(transfer_id) REFERENCES transfer (id)
);
CREATE TABLE dbos_migrations (version INTEGER NOT NULL PRIMARY KEY);
INSERT INTO "dbos_migrations" VALUES(125);
CREATE TABLE delivery_mail (
	id TEXT NOT NULL, 
	share_link_id TEXT NOT NULL, 
	transfer_id TEXT NOT NULL, 
	address TEXT NOT NULL, 
	channel TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE endpoint_fact (
	endpoint TEXT NOT NULL, 
	bucket TEXT NOT NULL, 
	identity TEXT NOT NULL, 
	answers TEXT NOT NULL, 
	learned TEXT NOT NULL, 
	newest_at DOUBLE NOT NULL, 
	PRIMARY KEY (endpoint, bucket)
);
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
INSERT INTO "engine_sample" VALUES('sqlite',1.79594263090262055396e+09,8010,58,0,0,0,117,3444);
CREATE TABLE event (
	transfer_id TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	at DOUBLE NOT NULL, 
	kind TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	data TEXT NOT NULL, 
	previous TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	key_id TEXT, 
	PRIMARY KEY (transfer_id, number), 
	FOREIGN KEY(transfer_id) REFERENCES transfer (id)
);
INSERT INTO "event" VALUES('40f136bf-c981-4e9d-aab3-4de4b05d38a5',1,1.79594262662430405614e+09,'submitted','ada','{"sealed": {"labels": null, "max_bandwidth": null, "max_requests": null, "name": null, "priority": 0, "retry_of": null, "source_uri": "s3://the-source/run/", "target_uri": "s3://the-target/run/", "tpslimit": null}, "spec": {"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "strip": "run/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "version": 2}}','0000000000000000000000000000000000000000000000000000000000000000','f544ffc28c7249b468db9ca2b0748e94adbd23492f84755f13eb185dd4104c30','9b5b03da1c312e22');
INSERT INTO "event" VALUES('40f136bf-c981-4e9d-aab3-4de4b05d38a5',2,1.79594262931992769243e+09,'started','worker host-12758-90d934a8','{}','f544ffc28c7249b468db9ca2b0748e94adbd23492f84755f13eb185dd4104c30','5beace3cef12b3ee479a6466e03c8142a90821f0084db516ae10f60c1a068dbe','9b5b03da1c312e22');
INSERT INTO "event" VALUES('40f136bf-c981-4e9d-aab3-4de4b05d38a5',3,1.79594262984585952762e+09,'planned','worker host-12758-90d934a8','{"bytes": 30000, "objects": 30}','5beace3cef12b3ee479a6466e03c8142a90821f0084db516ae10f60c1a068dbe','5ea0e3c95ffb243ed120926a85d36b5be05ff3dc50c3b5e5d93b4e34f7f51897','9b5b03da1c312e22');
INSERT INTO "event" VALUES('fcc28b0c-921f-4aa8-9c29-673ae3ebe18c',1,1.79594263170563840864e+09,'submitted','ada','{"sealed": {"labels": null, "max_bandwidth": null, "max_requests": null, "name": null, "priority": 0, "retry_of": null, "source_uri": "s3://the-source/paused/", "target_uri": "s3://the-target/paused/", "tpslimit": null}, "spec": {"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "strip": "paused/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "version": 2}}','0000000000000000000000000000000000000000000000000000000000000000','74adbd3fafae92733f7b1ae8f0f1d89e25d337980affc384f8e12d1a2f75342e','9b5b03da1c312e22');
INSERT INTO "event" VALUES('fcc28b0c-921f-4aa8-9c29-673ae3ebe18c',2,1.79594263176532530782e+09,'paused','ada','{}','74adbd3fafae92733f7b1ae8f0f1d89e25d337980affc384f8e12d1a2f75342e','4b89692d1d1bd5807fc746a1d20ddc9a8024ecfc09616df6b04f624777a15f21','9b5b03da1c312e22');
INSERT INTO "event" VALUES('796c536a-3207-4178-bf22-441922abcff2',1,1.7959426320096321106e+09,'submitted','ada','{"sealed": {"labels": null, "max_bandwidth": null, "max_requests": null, "name": null, "priority": 0, "retry_of": null, "source_uri": "s3://the-source/queued/", "target_uri": "s3://the-target/queued/", "tpslimit": null}, "spec": {"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "strip": "queued/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "version": 2}}','0000000000000000000000000000000000000000000000000000000000000000','c1f260d6ef927d6e3a5b3dd80c99a06851df95e3df0f2349fcd5d09c9efc8228','9b5b03da1c312e22');
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
INSERT INTO "ledger" VALUES(1,1.79594262662430405614e+09,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',1,'submitted','f544ffc28c7249b468db9ca2b0748e94adbd23492f84755f13eb185dd4104c30','9b5b03da1c312e22','0000000000000000000000000000000000000000000000000000000000000000','805786c1a3a653658fd90683fde5ce0e64c6d1e5fb8aac1c9ec456037eadeedb');
INSERT INTO "ledger" VALUES(2,1.79594263170563840864e+09,'fcc28b0c-921f-4aa8-9c29-673ae3ebe18c',1,'submitted','74adbd3fafae92733f7b1ae8f0f1d89e25d337980affc384f8e12d1a2f75342e','9b5b03da1c312e22','805786c1a3a653658fd90683fde5ce0e64c6d1e5fb8aac1c9ec456037eadeedb','56632062bd07cfed862a1c056c1913ac3514d52f011f99697bd3dafb9f951182');
INSERT INTO "ledger" VALUES(3,1.7959426320096321106e+09,'796c536a-3207-4178-bf22-441922abcff2',1,'submitted','c1f260d6ef927d6e3a5b3dd80c99a06851df95e3df0f2349fcd5d09c9efc8228','9b5b03da1c312e22','56632062bd07cfed862a1c056c1913ac3514d52f011f99697bd3dafb9f951182','8cb927e69dde44623a5f7697eda45c20e2def4d1568671c7049279d6d60086d2');
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
	version_id TEXT DEFAULT '' NOT NULL, 
	source_upload_id TEXT DEFAULT '' NOT NULL, 
	member_place TEXT DEFAULT '' NOT NULL, 
	upload_number INTEGER DEFAULT '0' NOT NULL, 
	target_key TEXT NOT NULL, 
	size BIGINT NOT NULL, 
	etag TEXT NOT NULL, 
	last_modified DOUBLE NOT NULL, 
	storage_class TEXT, 
	written_by TEXT, 
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
	file_changed DOUBLE, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_object_source UNIQUE (transfer_id, source_key, version_id, source_upload_id, member_place, upload_number)
);
INSERT INTO "object" VALUES(1,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s000','','','',0,'run/s000',1000,'742ddb9d181b57fcacaa72438402aee4',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016045856476e+09,1.79594263055619716646e+09,NULL,NULL,'742ddb9d181b57fcacaa72438402aee4',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(2,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s001','','','',0,'run/s001',1000,'c8d1d963be2de1688155c0d308967e5e',1795942624.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016055083275e+09,1.79594263123342156411e+09,NULL,NULL,'c8d1d963be2de1688155c0d308967e5e',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(3,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s002','','','',0,'run/s002',1000,'e1e06e2b080235b7081ad31a7a5ab4a0',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016059780125e+09,1.79594263125591778757e+09,NULL,NULL,'e1e06e2b080235b7081ad31a7a5ab4a0',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(4,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s003','','','',0,'run/s003',1000,'2d8a5f494cfe4ffe32fad831ede47515',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016063928608e+09,1.79594263123218965535e+09,NULL,NULL,'2d8a5f494cfe4ffe32fad831ede47515',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(5,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s004','','','',0,'run/s004',1000,'149591484b572f06655c09d225d56a77',1795942624.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016068243984e+09,1.79594263123260045053e+09,NULL,NULL,'149591484b572f06655c09d225d56a77',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(6,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s005','','','',0,'run/s005',1000,'d7f32a0e260c266cfd2e71df104f90cd',1795942624.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016072249418e+09,1.79594263123351907725e+09,NULL,NULL,'d7f32a0e260c266cfd2e71df104f90cd',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(7,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s006','','','',0,'run/s006',1000,'498c4393c7c61f899b7c88829fd67c5c',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016077613833e+09,1795942631.46324,NULL,NULL,'498c4393c7c61f899b7c88829fd67c5c',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(8,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s007','','','',0,'run/s007',1000,'c785f46feed7afd0f21d6b15136c859c',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016081738472e+09,1.79594263154543280604e+09,NULL,NULL,'c785f46feed7afd0f21d6b15136c859c',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(9,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s008','','','',0,'run/s008',1000,'1c193593e83839fbf503e0703d3e5dbb',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016085529333e+09,1.79594263123256421086e+09,NULL,NULL,'1c193593e83839fbf503e0703d3e5dbb',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(10,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s009','','','',0,'run/s009',1000,'d0e1cab941ed40b9be252f02244aae80',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016089820865e+09,1.79594263120760846141e+09,NULL,NULL,'d0e1cab941ed40b9be252f02244aae80',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(11,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s010','','','',0,'run/s010',1000,'5fd121114ca8eb0d215df83d67f3d0cb',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016094136237e+09,1.7959426312326359749e+09,NULL,NULL,'5fd121114ca8eb0d215df83d67f3d0cb',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(12,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s011','','','',0,'run/s011',1000,'92749faf21e2523a14bdac810370e25c',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.7959426301609494686e+09,1.79594263137267923357e+09,NULL,NULL,'92749faf21e2523a14bdac810370e25c',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(13,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s012','','','',0,'run/s012',1000,'e87a53d05322d92c5b3a6bfc623bd37a',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016095185281e+09,1.79594263125604343411e+09,NULL,NULL,'e87a53d05322d92c5b3a6bfc623bd37a',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(14,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s013','','','',0,'run/s013',1000,'529a79c9899739651e84f1fa3afb919d',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.7959426301609535217e+09,1.79594263125585913657e+09,NULL,NULL,'529a79c9899739651e84f1fa3afb919d',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(15,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s014','','','',0,'run/s014',1000,'265d2657cd8ed41d0044be243260795f',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016095542903e+09,1.79594263123222947116e+09,NULL,NULL,'265d2657cd8ed41d0044be243260795f',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(16,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s015','','','',0,'run/s015',1000,'84b14ba2b0e6a71e1d50307a003e7919',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016095733644e+09,1.79594263126737213129e+09,NULL,NULL,'84b14ba2b0e6a71e1d50307a003e7919',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(17,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s016','','','',0,'run/s016',1000,'fe0338ab18d549f1bc178dc376c122da',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016095900538e+09,1.7959426312559847832e+09,NULL,NULL,'fe0338ab18d549f1bc178dc376c122da',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(18,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s017','','','',0,'run/s017',1000,'6c80a10b0a9d694429de8722eabea0b1',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016096067431e+09,1.79594263125565671923e+09,NULL,NULL,'6c80a10b0a9d694429de8722eabea0b1',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(19,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s018','','','',0,'run/s018',1000,'475a23029b8faf879e20e93da327de30',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.7959426301609623432e+09,1.79594263123212385174e+09,NULL,NULL,'475a23029b8faf879e20e93da327de30',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(20,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s019','','','',0,'run/s019',1000,'82c4ddeb98530d856f64cd09e3be9545',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.7959426301609637737e+09,1.79594263125581407548e+09,NULL,NULL,'82c4ddeb98530d856f64cd09e3be9545',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(21,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s020','','','',0,'run/s020',1000,'9e29fb627ea3b59583e46eac90d1e722',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016096520419e+09,1.79594263125575566292e+09,NULL,NULL,'9e29fb627ea3b59583e46eac90d1e722',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(22,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s021','','','',0,'run/s021',1000,'eb09c4d5ff5c369acf57c51309e66fe2',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016096615786e+09,1.7959426312325158119e+09,NULL,NULL,'eb09c4d5ff5c369acf57c51309e66fe2',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(23,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s022','','','',0,'run/s022',1000,'83f508f81049eb3d2d00c6afe15a8e01',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016097164154e+09,1.7959426304642367363e+09,NULL,NULL,'83f508f81049eb3d2d00c6afe15a8e01',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(24,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s023','','','',0,'run/s023',1000,'7d8e7ef94e30de25522e16c2f6b1cbf0',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016097331047e+09,1.79594263046429586405e+09,NULL,NULL,'7d8e7ef94e30de25522e16c2f6b1cbf0',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(25,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s024','','','',0,'run/s024',1000,'3472dbe474a10e985e6a3838e97df820',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016097497936e+09,1.79594263046435761456e+09,NULL,NULL,'3472dbe474a10e985e6a3838e97df820',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(26,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s025','','','',0,'run/s025',1000,'d85e2429d9b97220cd883d6e4dae1e5e',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016097664825e+09,1.79594263055944800382e+09,NULL,NULL,'d85e2429d9b97220cd883d6e4dae1e5e',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(27,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s026','','','',0,'run/s026',1000,'c5abc4e7336acd03a168a6904038fdd2',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016098189354e+09,1.79594263055609488491e+09,NULL,NULL,'c5abc4e7336acd03a168a6904038fdd2',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(28,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s027','','','',0,'run/s027',1000,'9c1e7c033eb221418b451554bfce1eed',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016098451609e+09,1.7959426305560083389e+09,NULL,NULL,'9c1e7c033eb221418b451554bfce1eed',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(29,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s028','','','',0,'run/s028',1000,'13ddfa059e71c1dba2f21199678819b2',1795942625.0,'STANDARD',NULL,'done',1,0,'copy',1.79594263016098618502e+09,1.79594263055615425105e+09,NULL,NULL,'13ddfa059e71c1dba2f21199678819b2',NULL,NULL,NULL,'etag',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "object" VALUES(30,'40f136bf-c981-4e9d-aab3-4de4b05d38a5',0,'run/s029','','','',0,'run/s029',1000,'739bad3e7110283ca62dd8beecce796f',1795942625.0,'STANDARD',NULL,'pending',0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
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
INSERT INTO "operation_outputs" VALUES('40f136bf-c981-4e9d-aab3-4de4b05d38a5',1,'plan','null',NULL,NULL,1795942629316,1795942629856,'portable_json','seqferry',1795942629000);
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
INSERT INTO "queues" VALUES('AA1A7498EE4F406E7DBE1273BB123482','transfers.ce4408271ae2',NULL,64,NULL,NULL,1,0,0.25,1795942628000,1795942628698,'seqferry',NULL,NULL,NULL,NULL);
INSERT INTO "queues" VALUES('B3ACF40EA775ACDFCAEA0A38FCD899FD','batches.ce4408271ae2',NULL,8,NULL,NULL,1,0,0.25,1795942628000,1795942628703,'seqferry',NULL,NULL,NULL,NULL);
INSERT INTO "queues" VALUES('77F25E3C21CB9310A48BD8306912E41E','schedules',NULL,4,NULL,NULL,1,0,0.25,1795942628000,1795942628704,'seqferry',NULL,NULL,NULL,NULL);
CREATE TABLE report_ticket (
	digest TEXT NOT NULL, 
	ends_at DOUBLE NOT NULL, 
	share_link_id TEXT, 
	transfer_id TEXT NOT NULL, 
	format TEXT NOT NULL, 
	price TEXT, 
	page BIGINT NOT NULL, 
	PRIMARY KEY (digest)
);
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
INSERT INTO "sample" VALUES('40f136bf-c981-4e9d-aab3-4de4b05d38a5','sqlite',1.79594263090209579469e+09,8000,8,39,0);
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
	labels TEXT, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "schedule" VALUES('03955496-cd87-4848-84e6-d0ddbad98a88','nightly','0 2 * * *','UTC','{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "nightly/", "region": "us-east-1", "type": "s3"}, "strip": "nightly/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "nightly/", "region": "us-east-1", "type": "s3"}, "version": 2}',0,'active',1.79594263179404211045e+09,1,1.79594263179404211045e+09,'ada',NULL);
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
INSERT INTO "schedule_event" VALUES('03955496-cd87-4848-84e6-d0ddbad98a88',1,'nightly',1.79594263179404211045e+09,'added','ada','{"cron": "0 2 * * *", "name": "nightly", "priority": 0, "spec": "{\"copy_threshold\": 5242880, \"operation\": \"transfer\", \"part_size\": 5242880, \"source\": {\"access\": {\"identity\": {\"proof\": \"751c86810226\", \"source\": \"environment\"}}, \"bucket\": \"the-source\", \"endpoint_url\": \"http://127.0.0.1:9\", \"key\": \"nightly/\", \"region\": \"us-east-1\", \"type\": \"s3\"}, \"strip\": \"nightly/\", \"target\": {\"access\": {\"identity\": {\"proof\": \"751c86810226\", \"source\": \"environment\"}}, \"bucket\": \"the-target\", \"endpoint_url\": \"http://127.0.0.1:9\", \"key\": \"nightly/\", \"region\": \"us-east-1\", \"type\": \"s3\"}, \"version\": 2}", "timezone": "UTC"}','0000000000000000000000000000000000000000000000000000000000000000','85ea0a874d93fb46ad268b54eec9786ecde2ae0091766c8f40fbdffa4573ab89','9b5b03da1c312e22');
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
INSERT INTO "schema_note" VALUES('oldest reader','0100');
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
INSERT INTO "seqferry_schema" VALUES('0100');
CREATE TABLE share_link (
	id TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	transfer_id TEXT, 
	label TEXT, 
	created_at DOUBLE NOT NULL, 
	created_by TEXT NOT NULL, 
	expires_at DOUBLE NOT NULL, 
	revoked_at DOUBLE, 
	revoked_by TEXT, 
	PRIMARY KEY (id)
);
CREATE TABLE share_link_event (
	share_link_id TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	at DOUBLE NOT NULL, 
	kind TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	data TEXT NOT NULL, 
	previous TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	key_id TEXT, 
	PRIMARY KEY (share_link_id, number)
);
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
INSERT INTO "tally" VALUES('40f136bf-c981-4e9d-aab3-4de4b05d38a5',30,30000,29,0,0,0,29000);
INSERT INTO "tally" VALUES('fcc28b0c-921f-4aa8-9c29-673ae3ebe18c',0,0,0,0,0,0,0);
INSERT INTO "tally" VALUES('796c536a-3207-4178-bf22-441922abcff2',0,0,0,0,0,0,0);
CREATE TABLE token (
	digest TEXT NOT NULL, 
	name TEXT NOT NULL, 
	role TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	expires_at DOUBLE, 
	removed_at DOUBLE, 
	PRIMARY KEY (digest)
);
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
	attended_by TEXT, 
	needs TEXT, 
	lane TEXT, 
	waits_for TEXT, 
	turn BIGINT, 
	blocked_by TEXT, 
	submission TEXT, 
	target_place TEXT, 
	target_prefix TEXT, 
	source_uri TEXT, 
	target_uri TEXT, 
	receipt_digest TEXT, 
	pruned_at DOUBLE, 
	retry_of TEXT, 
	priority INTEGER DEFAULT '0' NOT NULL, 
	max_requests INTEGER, 
	max_bandwidth TEXT, 
	tpslimit INTEGER, 
	name TEXT, 
	labels TEXT, 
	PRIMARY KEY (id), 
	UNIQUE (idempotency_key)
);
INSERT INTO "transfer" VALUES('40f136bf-c981-4e9d-aab3-4de4b05d38a5','running','{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "strip": "run/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "run/", "region": "us-east-1", "type": "s3"}, "version": 2}',1.79594262662430405614e+09,'ada',1.79594262931992769243e+09,1.79594262984585952762e+09,NULL,NULL,NULL,NULL,1,'host-12758-90d934a8','[{"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}, {"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}]','ce4408271ae2',NULL,1,NULL,'ac73418f27015f32730e82b51aa1a99d58ff230d907a15a04467271c787f6958','http://localhost:37925 the-target','run/','s3://the-source/run/','s3://the-target/run/',NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transfer" VALUES('fcc28b0c-921f-4aa8-9c29-673ae3ebe18c','paused','{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "strip": "paused/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "paused/", "region": "us-east-1", "type": "s3"}, "version": 2}',1.79594263170563840864e+09,'ada',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'[{"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}, {"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}]','ce4408271ae2',NULL,2,NULL,'d0f6bb86583b544b8365d8b0f82f92f2306f4062ae1e4597e141f8093f387cd2','http://localhost:37925 the-target','paused/','s3://the-source/paused/','s3://the-target/paused/',NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "transfer" VALUES('796c536a-3207-4178-bf22-441922abcff2','queued','{"copy_threshold": 5242880, "operation": "transfer", "part_size": 5242880, "source": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-source", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "strip": "queued/", "target": {"access": {"identity": {"proof": "751c86810226", "source": "environment"}}, "bucket": "the-target", "endpoint_url": "http://127.0.0.1:9", "key": "queued/", "region": "us-east-1", "type": "s3"}, "version": 2}',1.7959426320096321106e+09,'ada',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'[{"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}, {"accelerate": false, "ca_bundle": null, "dual_stack": false, "fips": false, "identity": {"profile": null, "proof": "751c86810226", "role": null, "source": "environment"}, "path_style": null, "sign_bodies": false}]','ce4408271ae2',NULL,3,NULL,'62a0e0f07b8d40c3397bcbe3d48250f6bdeba504a82b7d79c36bc79d74910eec','http://localhost:37925 the-target','queued/','s3://the-source/queued/','s3://the-target/queued/',NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
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
	drain_at DOUBLE, 
	lanes TEXT NOT NULL, 
	limits TEXT NOT NULL, 
	resident BIGINT, 
	transfers INTEGER NOT NULL, 
	in_flight INTEGER NOT NULL, 
	windows TEXT NOT NULL, 
	facts TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "worker" VALUES('host-12758-90d934a8@821cd71ebe6e.12758.4862553','worker','host',12758,'0.1.0','0100','1',1.79594262808976173396e+09,1.79594263090418601036e+09,2,NULL,NULL,'["ce4408271ae2"]','{"max_requests": 10000, "max_bandwidth": null, "tpslimit": null, "memory": 100663296}',112033792,1,22,'[{"bucket": "the-target", "prefix": "run/", "access": "write", "requests": 32, "rate": null, "in_flight": 22}, {"bucket": "the-source", "prefix": "", "access": "read", "requests": 32, "rate": null, "in_flight": 0}, {"bucket": "the-source", "prefix": "run/", "access": "read", "requests": 32, "rate": null, "in_flight": 0}, {"bucket": "the-target", "prefix": "", "access": "read", "requests": 32, "rate": null, "in_flight": 0}, {"bucket": "the-target", "prefix": "run/", "access": "read", "requests": 32, "rate": null, "in_flight": 0}]','{"own_work": false}');
CREATE TABLE worker_live (
	transfer_id TEXT NOT NULL, 
	executor_id TEXT NOT NULL, 
	at DOUBLE NOT NULL, 
	data TEXT NOT NULL, 
	PRIMARY KEY (transfer_id, executor_id), 
	FOREIGN KEY(transfer_id) REFERENCES transfer (id)
);
INSERT INTO "worker_live" VALUES('40f136bf-c981-4e9d-aab3-4de4b05d38a5','sqlite',1.79594263090167260174e+09,'{"bytes": 8000, "objects": 8, "bytes_in_progress": 0, "bytes_per_second": 7563.079784256847, "in_flight": 22, "requests": 39, "retries": 0, "throttled": 0, "slowest": [{"key": "run/s029", "size": 1000, "bytes_done": 0, "seconds": 0.734403855}, {"key": "run/s001", "size": 1000, "bytes_done": 0, "seconds": 0.734117351}, {"key": "run/s002", "size": 1000, "bytes_done": 0, "seconds": 0.734071864}, {"key": "run/s003", "size": 1000, "bytes_done": 0, "seconds": 0.734026717}, {"key": "run/s004", "size": 1000, "bytes_done": 0, "seconds": 0.733979117}], "bytes_recorded": 8000}');
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
INSERT INTO "workflow_input" VALUES('40f136bf-c981-4e9d-aab3-4de4b05d38a5','{"namedArgs":{},"positionalArgs":["40f136bf-c981-4e9d-aab3-4de4b05d38a5"]}',1795942626000);
INSERT INTO "workflow_input" VALUES('40f136bf-c981-4e9d-aab3-4de4b05d38a5:b000000','{"namedArgs":{},"positionalArgs":["40f136bf-c981-4e9d-aab3-4de4b05d38a5",0]}',1795942629000);
INSERT INTO "workflow_input" VALUES('fcc28b0c-921f-4aa8-9c29-673ae3ebe18c','{"namedArgs":{},"positionalArgs":["fcc28b0c-921f-4aa8-9c29-673ae3ebe18c"]}',1795942631000);
INSERT INTO "workflow_input" VALUES('796c536a-3207-4178-bf22-441922abcff2','{"namedArgs":{},"positionalArgs":["796c536a-3207-4178-bf22-441922abcff2"]}',1795942632000);
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
INSERT INTO "workflow_status" VALUES('40f136bf-c981-4e9d-aab3-4de4b05d38a5','PENDING','transfer',NULL,NULL,NULL,NULL,NULL,NULL,'sqlite',1795942626000,1795942629000,'1',NULL,NULL,NULL,1,'transfers.ce4408271ae2',NULL,NULL,NULL,1795942629000,NULL,641,NULL,NULL,'90c8e3ec-92c4-4f1e-9317-a4c8e8db85e2',NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'seqferry','c47ddca1-b43a-4754-b49c-96f502d69e71');
INSERT INTO "workflow_status" VALUES('40f136bf-c981-4e9d-aab3-4de4b05d38a5:b000000','PENDING','batch',NULL,NULL,NULL,NULL,NULL,NULL,'sqlite',1795942629000,1795942629000,'1',NULL,NULL,NULL,1,'batches.ce4408271ae2',NULL,NULL,NULL,1795942629000,NULL,681,NULL,NULL,'a4e99ec9-deb7-4f5b-a1a9-8d57b528b15f',NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'seqferry','14de0a58-268b-4df1-8950-05ac127c256e');
INSERT INTO "workflow_status" VALUES('fcc28b0c-921f-4aa8-9c29-673ae3ebe18c','ENQUEUED','transfer',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795942631000,1795942631000,'1',NULL,NULL,NULL,0,'transfers.paused',NULL,NULL,NULL,NULL,NULL,641,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'seqferry','446b743a-a95f-4f52-a20a-e1fb99bc868d');
INSERT INTO "workflow_status" VALUES('796c536a-3207-4178-bf22-441922abcff2','ENQUEUED','transfer',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795942632000,1795942632000,'1',NULL,NULL,NULL,0,'transfers.ce4408271ae2',NULL,NULL,NULL,NULL,NULL,641,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'seqferry','d0457ce6-0215-46c3-8646-b8b9a0d3595b');
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
CREATE INDEX ix_transfer_name ON transfer (name);
CREATE INDEX ix_transfer_retry_of ON transfer (retry_of);
CREATE INDEX ix_transfer_submission ON transfer (submission);
CREATE INDEX ix_transfer_target ON transfer (target_place, target_prefix) WHERE ended_at IS NULL;
CREATE INDEX ix_transfer_turn ON transfer (turn) WHERE ended_at IS NULL;
CREATE INDEX ix_batch_state ON batch (transfer_id, state);
CREATE INDEX ix_object_batch ON object (transfer_id, batch_number);
CREATE INDEX ix_object_failed ON object (transfer_id, id) WHERE error_class IS NOT NULL;
CREATE INDEX ix_object_page ON object (transfer_id, id);
CREATE INDEX ix_ledger_transfer ON ledger (transfer_id);
CREATE INDEX ix_notice_due ON notice (state, next_at);
CREATE INDEX ix_schedule_run ON schedule_run (schedule_id, at);
CREATE INDEX ix_schedule_event_name ON schedule_event (name);
CREATE INDEX ix_share_link_created ON share_link (created_at);
CREATE INDEX ix_share_link_expires ON share_link (expires_at);
CREATE INDEX ix_share_link_label ON share_link (label);
CREATE INDEX ix_share_link_transfer ON share_link (transfer_id);
CREATE INDEX ix_delivery_mail_link ON delivery_mail (share_link_id);
CREATE INDEX ix_delivery_mail_transfer ON delivery_mail (transfer_id);
CREATE INDEX ix_sample_at ON sample (at);
CREATE INDEX ix_token_name ON token (name);
CREATE VIEW seqferry_autoscale as
with limits as (
    select
        coalesce(max(case when name = 'minimum' then value end), 0) as minimum,
        coalesce(max(case when name = 'maximum' then value end), 20) as maximum,
        60.0 * coalesce(max(case when name = 'drain_minutes' then value end), 15) as drain_seconds
    from autoscale_limit
),
open_transfer as (
    select id, planned_at from transfer where ended_at is null and blocked_by is null and state <> 'paused'
),
backlog as (
    select
        count(*) as transfers,
        count(*) - count(open_transfer.planned_at) as unplanned,
        cast(coalesce(sum(bytes - bytes_done), 0) as double precision) as bytes,
        cast(coalesce(sum(objects - done - skipped - failed - cancelled), 0) as double precision) as objects
    from open_transfer left join tally on tally.transfer_id = open_transfer.id
),
open_batch as (
    select count(*) as batches
    from batch join open_transfer on open_transfer.id = batch.transfer_id
    where batch.state in ('queued', 'active')
),
counters as (
    select
        executor_id, transfer_id, cast(at / 60.0 as integer) as minute,
        max(at) as at, max(bytes) as bytes, max(requests) as requests
    from sample
    where at > ((julianday('now') - 2440587.5) * 86400.0) - 86400.0
    group by executor_id, transfer_id, cast(at / 60.0 as integer)
),
growth as (
    select
        executor_id, minute,
        at - lag(at) over earlier as seconds,
        bytes - lag(bytes) over earlier as bytes,
        requests - lag(requests) over earlier as requests,
        minute - lag(minute) over earlier as minutes
    from counters
    window earlier as (partition by executor_id, transfer_id order by minute)
),
worker_minute as (
    select executor_id, minute, sum(bytes / seconds) as bytes, sum(requests / seconds) as requests
    from growth
    where minutes = 1 and seconds between 30.0 and 90.0 and bytes >= 0 and requests >= 0
    group by executor_id, minute
),
fleet_minute as (
    select
        minute, count(*) as workers, sum(bytes) as bytes, sum(requests) as requests,
        max(bytes) as worker_bytes, max(requests) as worker_requests
    from worker_minute
    group by minute
),
alone as (
    select
        case when coalesce(max(worker_bytes), 0) > 0
            then max(max(worker_bytes), 67108864.0) else 419430400.0 end as bytes,
        case when coalesce(max(worker_requests), 0) > 0
            then max(max(worker_requests), 200.0) else 1000.0 end as requests
    from fleet_minute
),
fleet as (
    select fleet_minute.workers, fleet_minute.bytes / alone.bytes + fleet_minute.requests / alone.requests as worth
    from fleet_minute cross join alone
    where minute >= cast((((julianday('now') - 2440587.5) * 86400.0) - 3600.0) / 60.0 as integer) and minute < cast(((julianday('now') - 2440587.5) * 86400.0) / 60.0 as integer)
),
ceiling as (
    select count(*) as minutes, max(best) as worth
    from fleet cross join (select max(worth) as best from fleet) as found
    where workers > 1 and workers * 0.8 > best
),
need as (
    select
        backlog.transfers,
        backlog.bytes as backlog_bytes,
        backlog.objects + backlog.bytes / 134217728.0 as backlog_requests,
        open_batch.batches + backlog.unplanned as open_batches,
        alone.bytes as bytes_per_second_alone,
        alone.requests as requests_per_second_alone,
        case when ceiling.minutes >= 3 then max(1, (cast(ceiling.worth as integer) + (ceiling.worth > cast(ceiling.worth as integer)))) end as knee,
        limits.minimum, limits.maximum, limits.drain_seconds
    from backlog cross join open_batch cross join alone cross join ceiling cross join limits
),
wish as (
    select
        need.*,
        case when transfers = 0 then 0 else min(
            max(
                1,
                (cast((backlog_bytes / (bytes_per_second_alone * drain_seconds)) as integer) + ((backlog_bytes / (bytes_per_second_alone * drain_seconds)) > cast((backlog_bytes / (bytes_per_second_alone * drain_seconds)) as integer))),
                (cast((backlog_requests / (requests_per_second_alone * drain_seconds)) as integer) + ((backlog_requests / (requests_per_second_alone * drain_seconds)) > cast((backlog_requests / (requests_per_second_alone * drain_seconds)) as integer)))
            ),
            max(1, (cast((open_batches / 8.0) as integer) + ((open_batches / 8.0) > cast((open_batches / 8.0) as integer)))),
            coalesce(knee, maximum)
        ) end as workers
    from need
)
select
    cast(min(max(workers, minimum), maximum) as integer) as wanted_workers,
    cast(transfers as bigint) as transfers,
    cast(backlog_bytes as bigint) as backlog_bytes,
    cast((cast(backlog_requests as integer) + (backlog_requests > cast(backlog_requests as integer))) as bigint) as backlog_requests,
    cast(open_batches as bigint) as open_batches,
    cast(bytes_per_second_alone as double precision) as bytes_per_second_alone,
    cast(requests_per_second_alone as double precision) as requests_per_second_alone,
    cast(knee as integer) as knee,
    cast(minimum as integer) as minimum,
    cast(maximum as integer) as maximum,
    cast(drain_seconds as double precision) as drain_seconds
from wish;
COMMIT;
