//! Sources of streamed copies, with the digests that tests choose.

use super::{SOURCE, ServicePair, TransferFixture, small_limits};
use bytes::Bytes;
use seqferry_store::checksum::base64;
use seqferry_store::prelude::*;
use seqferry_store::{
    ChecksumAlgorithm, ChecksumKind, CompleteUpload, CompletedPart, CreateUpload, DigestAlgorithm, Digester, Digests,
    PutObject, UploadRef,
};
use seqferry_store_testing::MemoryStore;
use seqferry_transfer::{CopyMethod, JobItem, ObjectOutcome, ObjectState, VerificationLevel};

pub fn memory() -> MemoryStore {
    MemoryStore::new(small_limits().minimum_part)
}

pub fn value(algorithm: ChecksumAlgorithm, body: &[u8]) -> String {
    base64(&Digester::of(DigestAlgorithm::Checksum(algorithm), body))
}

/// A source that was written in one request, with this checksum.
pub async fn put(fixture: &TransferFixture, id: u64, algorithm: ChecksumAlgorithm, body: &[u8]) -> JobItem {
    let key = format!("k{id}");
    let object = PutObject {
        bucket: SOURCE.into(),
        key: key.clone(),
        digests: Digests { checksum: Some((algorithm, value(algorithm, body))), md5: None },
        ..PutObject::default()
    };
    let written = fixture.memory.put_object(&object, Bytes::copy_from_slice(body)).await.unwrap();
    item(id, &key, body, written.etag)
}

/// A source that was written in parts.
pub async fn upload(
    fixture: &TransferFixture,
    id: u64,
    checksum: Option<(ChecksumAlgorithm, ChecksumKind)>,
    body: &[u8],
    part_size: usize,
) -> JobItem {
    let key = format!("k{id}");
    let create = CreateUpload { bucket: SOURCE.into(), key: key.clone(), checksum, ..CreateUpload::default() };
    let upload_id = fixture.memory.create_upload(&create).await.unwrap();
    let mut parts = Vec::new();
    for (number, part) in (1..).zip(body.chunks(part_size)) {
        let sent = Bytes::copy_from_slice(part);
        let sent = fixture
            .memory
            .put_part(UploadRef::new(SOURCE, &key, &upload_id), number, sent, &Digests::default())
            .await
            .unwrap();
        parts.push(CompletedPart { number, etag: sent.etag, checksum: sent.checksum });
    }
    let complete = CompleteUpload {
        bucket: SOURCE.into(),
        key: key.clone(),
        upload_id,
        parts,
        size: body.len() as u64,
        ..CompleteUpload::default()
    };
    let written = fixture.memory.complete_upload(&complete).await.unwrap();
    item(id, &key, body, written.etag)
}

pub fn item(id: u64, key: &str, body: &[u8], etag: String) -> JobItem {
    let target_key = format!("copy/{key}");
    JobItem { id, source_key: key.into(), target_key, size: body.len() as u64, etag, ..JobItem::default() }
}

pub async fn assert_done(services: &ServicePair, item: &JobItem, outcome: &ObjectOutcome, verified: VerificationLevel) {
    assert_eq!((outcome.state, outcome.method), (ObjectState::Done, CopyMethod::Stream), "{outcome:?}");
    assert_eq!(outcome.verified, verified, "{outcome:?}");
    assert!(services.is_copied(item).await, "{outcome:?}");
}
