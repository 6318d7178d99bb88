//! The first pack of a process on real servers, which state other checksums of objects, of parts and of copies.

use std::sync::Arc;

use bytes::Bytes;
use seqferry_client::{Budget, BudgetLimits, Endpoint};
use seqferry_store::prelude::*;
use seqferry_store::{
    CompleteUpload, CompletedPart, CreateUpload, Credentials, Digests, EndpointOptions, ObjectRef, PutObject, S3Store,
    UploadRef,
};
use seqferry_store_testing::connect;
use seqferry_testkit::servers::{MOVER, REGION, ServerKind, server};
use seqferry_transfer::{Job, JobItem, ObjectState, PackOptions, Policy, Scheduler, VerificationLevel};

use crate::common::{bytes, drain, job};

const MIB: usize = 1 << 20;

async fn put(store: &S3Store, bucket: &str, key: &str, body: Bytes, digests: Digests) -> String {
    let (bucket, key) = (bucket.to_owned(), key.to_owned());
    store.put_object(&PutObject { bucket, key, digests, ..PutObject::default() }, body).await.unwrap().etag
}

async fn put_in_parts(store: &S3Store, bucket: &str, key: &str, parts: &[Bytes]) -> String {
    let upload = CreateUpload { bucket: bucket.to_owned(), key: key.to_owned(), ..CreateUpload::default() };
    let upload_id = store.create_upload(&upload).await.unwrap();
    let mut sent = Vec::new();
    for (number, body) in (1..).zip(parts) {
        let id = UploadRef::new(bucket, key, &upload_id);
        let part = store.put_part(id, number, body.clone(), &Digests::default()).await.unwrap();
        sent.push(CompletedPart { number, etag: part.etag, checksum: part.checksum });
    }
    let (bucket, key) = (bucket.to_owned(), key.to_owned());
    let complete = CompleteUpload { bucket, key, upload_id, parts: sent, ..CompleteUpload::default() };
    store.complete_upload(&complete).await.unwrap().etag
}

/// Packs all kinds of members in a fresh process, as far as the server's faults are learned by process.
async fn first_pack_on(kind: ServerKind) {
    let Some(server) = server(kind) else { return };
    let store = connect(EndpointOptions {
        endpoint_url: Some(server.endpoint_url().to_owned()),
        region: Some(REGION.to_owned()),
        credentials: Some(Credentials {
            access_key: MOVER.access_key.to_owned(),
            secret_key: MOVER.secret_key.to_owned(),
        }),
        ..EndpointOptions::default()
    })
    .await;
    let bucket = server.fresh_bucket();
    let mut items = Vec::new();
    let found = |id: u64, name: &str, size: usize, etag| {
        let (source_key, target_key) = (format!("run/{name}"), "out/run.tar".to_owned());
        JobItem { id, source_key, target_key, size: size as u64, etag, ..JobItem::default() }
    };
    for (name, size, is_stated) in [
        ("a.small", 1000, true),
        ("b.small-plain", 1000, false),
        ("c.empty", 0, true),
        ("d.large", 17 * MIB + 3, true),
        ("e.large-plain", 17 * MIB + 5, false),
        ("f.between", 6 * MIB, true),
    ] {
        let body = Bytes::from(bytes(items.len() as u64, size));
        let digests = if is_stated { Digests::crc64nvme(&body) } else { Digests::default() };
        let etag = put(&store, &bucket, &format!("run/{name}"), body, digests).await;
        items.push(found(items.len() as u64, name, size, etag));
    }
    for (name, lengths) in [("g.two-parts", [6 * MIB, 12 * MIB]), ("h.small-parts", [5 * MIB, 1])] {
        let parts = lengths.map(|length| Bytes::from(bytes(length as u64, length)));
        let etag = put_in_parts(&store, &bucket, &format!("run/{name}"), &parts).await;
        items.push(found(items.len() as u64, name, lengths.iter().sum(), etag));
    }

    let endpoint = Endpoint::new(Arc::new(store) as Arc<dyn ObjectStore>);
    let policy = Policy { source_bucket: bucket.clone(), target_bucket: bucket.clone(), ..Policy::default() };
    let scheduler = Scheduler::new(Budget::new(BudgetLimits::default()));
    let spec = job(endpoint.clone(), endpoint.clone(), policy, items);
    let options = PackOptions { strip: "run/".into(), index: true };
    let job = Job::start_pack(&tokio::runtime::Handle::current(), &scheduler, spec, options);
    let outcomes = drain(job).await.0;

    for outcome in outcomes.values() {
        assert_eq!(outcome.state, ObjectState::Done, "{outcome:?}");
        let is_proven = matches!(outcome.verified, VerificationLevel::Checksum | VerificationLevel::Etag);
        assert!(is_proven, "{outcome:?}");
    }
    assert_eq!(outcomes.len(), 8);
    let head = endpoint.store.head(ObjectRef::new(&bucket, "out/run.tar"), None).await.unwrap();
    assert_eq!(outcomes[&3].target_etag.as_ref(), Some(&head.etag));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_member_counts_by_size_in_the_first_pack_on_versitygw() {
    first_pack_on(ServerKind::Versitygw).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_member_counts_by_size_in_the_first_pack_on_seaweedfs() {
    first_pack_on(ServerKind::Seaweedfs).await;
}
