//! The sidecar index of an archive that was packed. It is written after the archive, so that its presence means that
//! both are complete.

use bytes::Bytes;
use seqferry_archive::index::{
    IndexHead, IndexLimits, IndexMember, IndexReader, IndexWriter, MemberSource, SUFFIX, TarIdentity,
};
use seqferry_client::{ChecksumSupport, RequestError, RetryContext, RetryingClient};
use seqferry_store::checksum::{base64, decode_base64};
use seqferry_store::{
    Attributes, Checksum, ChecksumAlgorithm, DigestAlgorithm, Digester, Digests, ErrorClass, ObjectMeta, PinnedObject,
    PutObject, Range,
};

use super::error::PackError;
use super::job::PackJob;
use super::parts::PackedMember;
use super::plan::Plan;

const TOOL: &str = concat!("seqferry ", env!("CARGO_PKG_VERSION"));
const CONTENT_TYPE: &str = "application/x-ndjson";
/// Bytes that hold the first line of an index.
const HEAD: u64 = 4096;

/// The key of the index of the archive `key`.
pub(crate) fn key(key: &str) -> String {
    format!("{key}{SUFFIX}")
}

/// Write an index in one request.
pub(crate) async fn put(
    client: &RetryingClient,
    retry_context: &RetryContext,
    bucket: &str,
    key: &str,
    bytes: Bytes,
) -> Result<(), RequestError> {
    let size = bytes.len() as u64;
    let _memory = client.reserve_passing(size, size).await?;
    loop {
        let algorithm = match client.quirks().sums() {
            ChecksumSupport::Any => Some(ChecksumAlgorithm::Crc64Nvme),
            ChecksumSupport::Crc32C => Some(ChecksumAlgorithm::Crc32C),
            ChecksumSupport::Md5 => None,
        };
        let digest = |algorithm| base64(&Digester::of(algorithm, &bytes));
        let checksum = algorithm.map(|algorithm| (algorithm, digest(DigestAlgorithm::Checksum(algorithm))));
        let md5 = checksum.is_none().then(|| digest(DigestAlgorithm::Md5));
        let object = PutObject {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            attributes: Attributes { content_type: Some(CONTENT_TYPE.to_owned()), ..Attributes::default() },
            digests: Digests { checksum, md5 },
            ..PutObject::default()
        };
        let put = client.put_object(&object, &bytes, retry_context).await;
        match (put, algorithm) {
            (Ok(_), _) => return Ok(()),
            (Err(RequestError::Failed(error)), Some(refused))
                if error.class == ErrorClass::Capability || error.is_about_checksums() =>
            {
                client.quirks().learn_refused_sum(refused);
            }
            (Err(other), _) => return Err(other),
        }
    }
}

impl PackJob {
    /// Write the index of the archive that is at the target.
    pub(super) async fn write_index(
        &self,
        plan: &Plan,
        target: &ObjectMeta,
        whole: Option<&Checksum>,
        contents: &[Option<PackedMember>],
    ) -> Result<(), PackError> {
        let bytes = self.index_lines(plan, target, whole, contents);
        Ok(put(&self.target, &self.retry_context, &self.policy.target_bucket, &key(&self.key), bytes.into()).await?)
    }

    /// The digest of what the archive was made of, by the index beside it: files keep no metadata.
    pub(super) async fn read_identity(&self, archive: &ObjectMeta) -> Result<Option<String>, PackError> {
        let key = key(&self.key);
        let meta = match self.head(&key).await {
            Ok(meta) if meta.size > 0 => meta,
            Ok(_) => return Ok(None),
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => return Ok(None),
            Err(other) => return Err(other.into()),
        };
        let index = PinnedObject::of(&self.policy.target_bucket, &key, &meta);
        let start = Range { first: 0, last: meta.size.min(HEAD) - 1 };
        let read = self.target.read_range(&index, start).await?;
        let mut reader = IndexReader::new(IndexLimits::default());
        // A damaged index names no archive, and is written again with the archive.
        let Ok(()) = reader.push(&read.bytes, |_| ()) else { return Ok(None) };
        let head = reader.head().filter(|head| head.tar.size == archive.size);
        Ok(head.filter(|head| head.tar.etag.as_ref() == Some(&archive.etag)).and_then(|head| head.made_of.clone()))
    }

    fn index_lines(
        &self,
        plan: &Plan,
        target: &ObjectMeta,
        whole: Option<&Checksum>,
        contents: &[Option<PackedMember>],
    ) -> Vec<u8> {
        let of =
            |algorithm: ChecksumAlgorithm| whole.filter(|sum| sum.algorithm == algorithm).map(|sum| sum.value.clone());
        let identity = TarIdentity {
            size: plan.total(),
            etag: Some(target.etag.clone()),
            version_id: target.version_id.clone(),
            crc64nvme: of(ChecksumAlgorithm::Crc64Nvme),
            crc32c: of(ChecksumAlgorithm::Crc32C),
            ..TarIdentity::default()
        };
        let items = self.members.items();
        let mut head = IndexHead::new(TOOL, identity, Some(items.len() as u64));
        head.made_of = Some(plan.digest.clone());
        let (mut writer, mut lines) = IndexWriter::new(&head);
        let etags_last = !self.source.capabilities().opaque_etags;
        for (ordinal, (entry, item)) in plan.layout().entries().iter().zip(items).enumerate() {
            let placement = plan.layout().placement(ordinal);
            let mut member = entry.member();
            (member.header_offset, member.data_offset) = (placement.header, placement.data);
            let read = contents.get(ordinal).and_then(Option::as_ref).and_then(|member| crc32c(&member.crc));
            let source = MemberSource {
                key: item.source_key.clone(),
                etag: Some(item.etag.clone()).filter(|etag| etags_last && !etag.is_empty()),
                version_id: item.version_id.clone(),
            };
            lines.extend_from_slice(&writer.member(&IndexMember {
                crc32c: if item.size == 0 { Some(0) } else { read },
                source: Some(source),
                ..IndexMember::from(member)
            }));
        }
        lines.extend_from_slice(&writer.finish());
        lines
    }
}

fn crc32c(crc: &Checksum) -> Option<u32> {
    let value = Some(&crc.value).filter(|_| crc.algorithm == ChecksumAlgorithm::Crc32C)?;
    let bytes: [u8; 4] = decode_base64(value)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes))
}
