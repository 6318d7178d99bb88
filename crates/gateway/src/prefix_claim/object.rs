//! The object of a claim: its form, and its requests.

use std::sync::Arc;

use bytes::Bytes;
use chrono::{SecondsFormat, Utc};
use seqferry_client::reading::{PinnedReader, fetch_pinned};
use seqferry_client::{RequestError, RequestSpec, RetryContext};
use seqferry_store::{Attributes, Digests, ErrorClass, ObjectStore, ObjectUri, PinnedObject, PutObject};
use serde::{Deserialize, Serialize};

use super::PrefixClaim;

/// Form of the objects that this program writes and understands.
pub(super) const FORMAT: u32 = 1;
/// Bytes of a claim at most: a prefix of 1,024 bytes, each written as six, and the words around it.
const SIZE: u64 = 8 << 10;

/// Contents of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClaimRecord {
    pub(super) format: u32,
    /// Id of the cache that it belongs to.
    pub(super) cache: String,
    /// Name of the machine.
    pub(super) host: String,
    pub(super) share: String,
    /// Bucket and prefix, as texts show them. A copy of the object in another bucket tells where it comes from.
    pub(super) source: String,
    /// Time of the claim, in UTC.
    pub(super) since: String,
}

/// A claim as the bucket has it.
#[derive(Debug)]
pub(super) struct StoredClaim {
    pub(super) key: String,
    pub(super) etag: String,
    /// None: the object is no claim.
    pub(super) record: Option<ClaimRecord>,
}

impl PrefixClaim {
    /// The claims that hold for the prefix, from the top down.
    pub(super) async fn read_all(&self) -> Result<Vec<StoredClaim>, RequestError> {
        let mut seen = Vec::new();
        for key in self.keys() {
            let is_own = key == self.key();
            match self.read(&key).await {
                Ok(claim) => seen.push(claim),
                Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => {}
                // An identity for this prefix alone sees nothing above it.
                Err(RequestError::Failed(error)) if error.class == ErrorClass::Person && !is_own => {}
                Err(error) => return Err(error),
            }
        }
        Ok(seen)
    }

    async fn read(&self, key: &str) -> Result<StoredClaim, RequestError> {
        let bucket = self.spec.bucket.clone();
        let object = PinnedObject { bucket, key: key.to_owned(), version_id: None, if_match: None, size: 0 };
        let spec = RequestSpec::read("GetObject", &self.spec.bucket);
        let get = async |store: Arc<dyn ObjectStore>| {
            let fetched = fetch_pinned(&*store, &object, None).await?;
            let piece = PinnedReader::new(fetched.body, &object).take_up_to(SIZE, &[]).await?;
            Ok((fetched.meta.etag, piece.bytes))
        };
        let (etag, bytes) = self.spec.client.call(spec, &RetryContext::default(), get).await?;
        Ok(StoredClaim { key: key.to_owned(), etag, record: serde_json::from_slice(&bytes).ok() })
    }

    /// Write the claim of this cache in place of the object with this `ETag`, or where none is.
    pub(super) async fn write(&self, key: &str, replaces: Option<String>) -> Result<(), RequestError> {
        let record = ClaimRecord {
            format: FORMAT,
            cache: self.spec.cache.clone(),
            host: self.host.clone(),
            share: self.spec.share.clone(),
            source: ObjectUri(&self.spec.bucket, Some(&self.spec.prefix)).to_string(),
            since: Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true),
        };
        let body = Bytes::from(serde_json::to_vec(&record).unwrap_or_default());
        let attributes = Attributes { content_type: Some("application/json".to_owned()), ..Attributes::default() };
        let if_absent = replaces.is_none();
        let object = PutObject {
            bucket: self.spec.bucket.clone(),
            key: key.to_owned(),
            attributes,
            write: self.spec.write.clone(),
            digests: Digests::crc64nvme(&body),
            if_absent,
            if_match: replaces,
            ..PutObject::default()
        };
        let (client, context) = (self.spec.client.clone().checking_before_writes(), RetryContext::default());
        match client.put_object(&object, &body, &context).await {
            // The service offers no conditions: the look before is all there is, and the one that follows.
            Err(RequestError::Failed(error)) if error.class == ErrorClass::Capability => {
                if object.if_absent {
                    client.quirks().learn_refused_conditions();
                } else {
                    client.quirks().learn_refused_matches();
                }
                client.put_object(&object, &body, &context).await.map(drop)
            }
            answer => answer.map(drop),
        }
    }
}
