//! A look at the target immediately before each attempt at a write with a condition, where nothing shows that the
//! service keeps the condition.
//!
//! Between the look and the write lies one request. That is what is left to chance on such a service; without the look
//! it would be all the time since the caller has looked, and the retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seqferry_store::{ErrorClass, ObjectRef, ObjectStore, StoreError};

use crate::client::RetryingClient;
use crate::quirks::ConditionalRequest;

/// Object that a write may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriteCondition<'a> {
    /// True when there must be none.
    pub(crate) if_absent: bool,
    /// Its `ETag`.
    pub(crate) if_match: Option<&'a str>,
}

impl WriteCondition<'_> {
    fn is_any(self) -> bool {
        self.if_absent || self.if_match.is_some()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct TargetCheck<'a> {
    object: ObjectRef<'a>,
    condition: WriteCondition<'a>,
    /// The next attempt is not the first, whose caller has just looked.
    is_due: AtomicBool,
    /// Credentials that may not look still write, as they would without a check.
    is_optional: bool,
}

impl RetryingClient {
    /// The condition as a request is sent with it: without what the service is known to refuse. A copy has one only
    /// where the service is known to keep it: some take it for one of the source.
    pub(crate) fn sent_condition<'a>(
        &self,
        request: ConditionalRequest,
        wanted: WriteCondition<'a>,
    ) -> WriteCondition<'a> {
        let quirks = self.quirks();
        if request == ConditionalRequest::Copy && !quirks.keeps_conditions(request) {
            return WriteCondition { if_absent: false, if_match: None };
        }
        WriteCondition {
            if_absent: wanted.if_absent && !quirks.refuses_conditions(),
            if_match: wanted.if_match.filter(|_| !quirks.refuses_matches()),
        }
    }

    /// The look before the attempts at a write. None: its condition is enough, or there is none.
    pub(crate) fn target_check<'a>(
        &self,
        request: ConditionalRequest,
        object: ObjectRef<'a>,
        wanted: WriteCondition<'a>,
        sent: WriteCondition<'_>,
    ) -> Option<TargetCheck<'a>> {
        let is_kept = sent == wanted && (self.quirks().keeps_conditions(request) || !self.looks_before_writes());
        (wanted.is_any() && !is_kept).then(|| TargetCheck {
            object: object.at_version(None),
            condition: wanted,
            is_due: AtomicBool::new(self.looks_before_writes()),
            is_optional: !self.looks_before_writes(),
        })
    }
}

impl TargetCheck<'_> {
    /// Looks, where there is a look.
    ///
    /// # Errors
    /// Those of [`TargetCheck::head_target`].
    pub(crate) async fn look_if_any(look: Option<&Self>, store: &Arc<dyn ObjectStore>) -> Result<(), StoreError> {
        match look {
            Some(look) => look.head_target(store).await,
            None => Ok(()),
        }
    }

    /// Looks, unless this is the first attempt of a caller that has looked itself.
    ///
    /// # Errors
    /// As the service would refuse the write for its condition; those of the look.
    async fn head_target(&self, store: &Arc<dyn ObjectStore>) -> Result<(), StoreError> {
        if !self.is_due.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let ObjectRef { bucket, key, .. } = self.object;
        let refused = |status| {
            let code = if status == 404 { "NoSuchKey" } else { "PreconditionFailed" };
            Err(StoreError::new("HeadObject", bucket, Some(key), code, Some(status)))
        };
        match store.head(self.object, None).await {
            Ok(found) if self.condition.if_match.is_some_and(|etag| etag == found.etag) => Ok(()),
            Ok(_) => refused(412),
            Err(error) if error.class == ErrorClass::NotFound && self.condition.if_match.is_some() => refused(404),
            Err(error) if error.class == ErrorClass::NotFound || self.is_optional && error.is_denied() => Ok(()),
            Err(error) => Err(error),
        }
    }
}
