//! Operations of S3, one call each.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::S3Store;
use super::address::{is_aws, without_userinfo};
use crate::error::Result;
use crate::error::StoreError;
use crate::error::classify::code;
use crate::store::DeferredSync;
use crate::store::{BucketService, ObjectStore};
use crate::types::Capabilities;

mod body;
mod buckets;
mod multipart;
mod page_check;
mod page_order;
mod read;
mod write;

pub(super) use page_order::PageOrders;

/// Time limit of requests that move no object bytes.
const METADATA_TIMEOUT: Duration = Duration::from_mins(1);
/// Time limit of completing an upload, which may take minutes while the service sends white space.
const COMPLETE_TIMEOUT: Duration = Duration::from_mins(15);
/// Largest number of pages of open uploads: a million uploads. The bound ends a listing whose markers repeat.
const MAX_UPLOAD_PAGES: usize = 1000;
/// Longest time without any bytes of a body; the request fails after it.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Least number of bytes within this time of waiting: the request of a slower body fails, since another connection may
/// be faster.
const MIN_RATE: (Duration, u64) = (Duration::from_mins(1), 64 << 10);

/// True for an error of HEAD, which has no body and so no code.
fn has_no_error_code(error: &StoreError) -> bool {
    matches!(error.code.as_str(), "BadRequest" | "Forbidden")
}

#[async_trait]
impl ObjectStore for S3Store {
    fn capabilities(&self) -> Capabilities {
        Capabilities::SERVICE
    }

    fn bucket_service(&self) -> Option<&dyn BucketService> {
        Some(self)
    }

    fn is_amazon(&self) -> bool {
        let base = Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner).base);
        base.endpoint.as_deref().is_none_or(is_aws)
    }

    fn max_attempts(&self) -> Option<u32> {
        self.max_attempts
    }

    fn take_notes(&self, sends_bodies: bool) -> Vec<String> {
        let mut notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        if sends_bodies && self.body_warning_due.swap(false, Ordering::Relaxed) {
            let base = Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner).base);
            notes.push(format!(
                "{}: over plain HTTP, uploads are protected by checksums against damage, not by signatures against people who can change them on the way. Use https, or set payload_signing_enabled = true in the s3 section of the AWS profile (more CPU).",
                without_userinfo(base.endpoint.as_deref().unwrap_or_default())
            ));
        }
        notes
    }

    fn deferred_sync(&self, _bucket: &str) -> Option<Box<dyn DeferredSync>> {
        None
    }

    async fn refresh_credentials(&self) -> Result<()> {
        if self.options.anonymous {
            return Err(StoreError::new("RefreshCredentials", "", None, code::NO_CREDENTIALS, None));
        }
        self.reload_credentials().await;
        Ok(())
    }
}
