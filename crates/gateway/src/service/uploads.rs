//! Uploads of the writable shares, and the claims on their prefixes.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::{OpenedShare, log_line};
use crate::error::GatewayError;
use crate::prefix_claim::{ClaimError, PrefixClaim};
use crate::writable_share::{UploadSpec, WritableShare};

/// Longest wait for uploads to be abandoned when the gateway stops.
const UPLOAD_GRACE: Duration = Duration::from_secs(5);

/// The way of a share's files to its bucket.
pub(super) struct ShareUpload {
    pub(super) spec: UploadSpec,
    pub(super) claim: Arc<PrefixClaim>,
    /// False when the endpoint did not answer: the prefix is claimed before the first upload.
    pub(super) is_reachable: bool,
    /// A journal was there: acknowledged files may wait in it, and the start needs no write of the bucket.
    pub(super) has_journal: bool,
}

/// Uploads of a share while it is served.
pub(super) struct RunningUpload {
    pub(super) task: JoinHandle<()>,
    /// Looks at the claim.
    pub(super) keeper: JoinHandle<()>,
    pub(super) writable: WritableShare,
    pub(super) claim: Arc<PrefixClaim>,
}

impl RunningUpload {
    /// Wait until nothing is under way any more, after the stop. A share whose bucket has everything gives its claim
    /// up.
    pub(super) async fn end(self) {
        let ended = async { (self.task.await, self.keeper.await) };
        let has_ended = tokio::time::timeout(UPLOAD_GRACE, ended).await.is_ok();
        if has_ended && self.writable.is_drained() {
            self.claim.release().await;
        }
    }
}

/// Claim the prefix of each share that is written, or of none. A share with a journal is served also where the bucket
/// refuses the claim: what waits is kept, and the prefix is claimed before the first upload.
pub(super) async fn claim_prefixes(opened: &[OpenedShare]) -> Result<(), GatewayError> {
    let written = || {
        let written = opened.iter().filter_map(|one| Some((&one.controlled.name, one.written.as_ref()?)));
        written.filter(|(_, written)| written.is_reachable)
    };
    let of_share = |name: &str, cause: ClaimError| GatewayError(format!("share {name}: {}", cause.into_text()));
    let counts = |one: &ShareUpload, cause: &ClaimError| !one.has_journal || matches!(cause, ClaimError::Taken(_));
    for (name, one) in written() {
        one.claim
            .check()
            .await
            .or_else(|cause| if counts(one, &cause) { Err(of_share(name, cause)) } else { Ok(()) })?;
    }
    for (name, one) in written() {
        match one.claim.acquire().await {
            Ok(()) => {}
            Err(cause) if counts(one, &cause) => {
                for (_, other) in written() {
                    other.claim.withdraw().await;
                }
                return Err(of_share(name, cause));
            }
            Err(cause) => log_line(&format!(
                "share {name}: {}. The share is served, and files are uploaded once the bucket takes them",
                cause.into_text().trim_end_matches('.')
            )),
        }
    }
    Ok(())
}
