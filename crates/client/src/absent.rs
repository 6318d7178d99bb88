//! Writes on condition that nothing is there, to services that count a delete marker, or a folder, as an object.
//!
//! Such a service (versitygw) refuses the condition under each key that was removed from a bucket with versions. The
//! write is then sent without it.
//!
//! **Invariant**: a write is sent without its condition only after the service has refused the condition, and after
//! that a listing of versions has shown a delete marker as the latest version of the key. Until the service is known
//! for it, this must happen twice: another program may have removed an object between a refusal and the listing. An
//! object that is written between the listing and the write stays as an older version, where the bucket keeps versions.
//!
//! Another service (SeaweedFS) refuses the condition for `a` while there are, or were, objects below `a/`. HEAD shows
//! it: `a` is not there, and `a/` is. This must happen twice as well; an object that is written between HEAD and the
//! write is replaced.

use std::sync::Arc;

use seqferry_store::{ErrorClass, ObjectRef, ObjectStore, VersionsPage, VersionsRequest, WrittenObject};

use crate::client::RetryingClient;
use crate::request::{RequestError, RequestSpec, RetryContext};

/// Condition of one write that nothing is there, while it is sent and refused.
pub(crate) struct AbsentCondition<'a> {
    object: ObjectRef<'a>,
    is_sent: bool,
    refusals: u32,
}

impl<'a> AbsentCondition<'a> {
    /// The condition of a write of this object. `is_wanted`: false for a write without a condition.
    pub(crate) fn new(object: ObjectRef<'a>, is_wanted: bool) -> Self {
        Self { object, is_sent: is_wanted, refusals: 0 }
    }

    /// True when the next attempt carries the condition.
    pub(crate) fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// Takes the answer to an attempt. True: the write is to be sent again, as [`Self::is_sent`] says. At most three
    /// attempts are made.
    ///
    /// # Errors
    /// [`RequestError::Cancelled`] when the caller was stopped.
    pub(crate) async fn is_sent_again(
        &mut self,
        client: &RetryingClient,
        answer: &Result<WrittenObject, RequestError>,
    ) -> Result<bool, RequestError> {
        let is_refused = matches!(answer, Err(RequestError::Failed(e)) if e.class == ErrorClass::Precondition);
        if !self.is_sent || !is_refused {
            return Ok(false);
        }
        if !client.is_removed(self.object).await? {
            if !client.is_implied_folder(self.object).await? {
                return Ok(false);
            }
            self.refusals += 1;
            self.is_sent = self.refusals < 2;
            return Ok(true);
        }
        self.refusals += 1;
        if self.refusals > 1 && client.quirks().learn_counted_delete_markers() {
            client.note(format!(
                "s3://{}: the service counts a delete marker as an object. New objects under keys that were removed \
                 are written without a condition, after a check of the versions of the key.",
                self.object.bucket
            ));
        }
        self.is_sent = !client.quirks().counts_delete_markers();
        Ok(true)
    }
}

impl RetryingClient {
    /// True when a delete marker is the latest version of this key. False also where versions cannot be listed.
    async fn is_removed(&self, object: ObjectRef<'_>) -> Result<bool, RequestError> {
        let ObjectRef { bucket, key, .. } = object;
        let request = VersionsRequest { bucket: bucket.to_owned(), prefix: key.to_owned(), after: None };
        let spec = RequestSpec::read("ListObjectVersions", bucket);
        let list = async |store: Arc<dyn ObjectStore>| match store.bucket_service() {
            Some(service) => service.list_versions(&request).await,
            None => Ok(VersionsPage::default()),
        };
        match self.call(spec, &RetryContext::default(), list).await {
            Ok(page) => {
                let latest = page.versions.iter().find(|version| version.is_latest && version.object.key == key);
                Ok(latest.is_some_and(|version| version.is_delete_marker))
            }
            Err(RequestError::Failed(_)) => Ok(false),
            Err(RequestError::Cancelled) => Err(RequestError::Cancelled),
        }
    }

    /// True when the service shows a folder of this name, and no object. False also where HEAD fails.
    async fn is_implied_folder(&self, object: ObjectRef<'_>) -> Result<bool, RequestError> {
        let ObjectRef { bucket, key, .. } = object;
        let folder = format!("{key}/");
        for (key, expected) in [(key, false), (&*folder, true)] {
            let is_there = match self.head(ObjectRef::new(bucket, key)).await {
                Ok(_) => true,
                Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => false,
                Err(RequestError::Failed(_)) => return Ok(false),
                Err(RequestError::Cancelled) => return Err(RequestError::Cancelled),
            };
            if is_there != expected {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
