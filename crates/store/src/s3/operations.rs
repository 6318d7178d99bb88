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
use crate::store::LateSync;
use crate::store::{BucketService, ObjectStore};
use crate::types::Capabilities;

mod body;
mod buckets;
mod multipart;
mod order;
mod read;
mod stated;
mod write;

pub(super) use order::ListingOrders;

/// Time limit of requests that move no object bytes.
const SHORT: Duration = Duration::from_mins(1);
/// Time limit of completing an upload, which may take minutes while the service sends white space.
const COMPLETE: Duration = Duration::from_mins(15);
/// Largest number of pages of open uploads: a million uploads. The bound ends a listing whose markers repeat.
const UPLOAD_PAGES: usize = 1000;
/// Time without any bytes after which a body is given up.
const STALLED: Duration = Duration::from_secs(30);
/// Least number of bytes in this time of waiting: a slower body is given up, since another connection may be faster.
const TRICKLE: (Duration, u64) = (Duration::from_mins(1), 64 << 10);

/// HEAD errors carry no body, hence no code.
fn is_mute(error: &StoreError) -> bool {
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

    fn encrypts_all(&self) -> bool {
        let base = Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner).base);
        base.endpoint.as_deref().is_none_or(is_aws)
    }

    fn max_attempts(&self) -> Option<u32> {
        self.max_attempts
    }

    fn take_notes(&self, sends_bodies: bool) -> Vec<String> {
        let mut notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        if sends_bodies && self.has_open_bodies.swap(false, Ordering::Relaxed) {
            let base = Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner).base);
            notes.push(format!(
                "{}: over plain HTTP, uploads are protected by checksums against damage, not by signatures against people who can change them on the way. Use https, or set payload_signing_enabled = true in the s3 section of the AWS profile (more CPU).",
                without_userinfo(base.endpoint.as_deref().unwrap_or_default())
            ));
        }
        notes
    }

    fn late_sync(&self, _bucket: &str) -> Option<Box<dyn LateSync>> {
        None
    }

    async fn refresh_credentials(&self) -> Result<()> {
        if self.options.anonymous {
            return Err(StoreError::new("RefreshCredentials", "", None, code::NO_CREDENTIALS, None));
        }
        self.reload().await;
        Ok(())
    }
}
