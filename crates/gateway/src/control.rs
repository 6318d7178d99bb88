//! Control interface of a running gateway, for commands on its machine: one line of JSON in, one line out.
//!
//! It listens on a Unix socket in the cache, for this user only. A client sends one request and gets one reply: `{"ok":
//! ...}`, or `{"error": "..."}` with a sentence. The length of lines and the number of clients are limited. A request
//! ends when its client disconnects, except a drain, which continues.

mod client_limits;
mod hand_over;
mod requests;
mod socket;
mod upload_batches;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use seqferry_client::RetryingClient;
use seqferry_share::Share;
use seqferry_vfs::FileSystem;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::share::RepeatCount;
use crate::writable_share::{FlushCounts, WritableShare, WriteStatus};
pub(crate) use client_limits::ClientLimits;
pub(crate) use hand_over::take_from_unmounted;
pub(crate) use socket::ControlSocket;
pub use upload_batches::UploadBatch;

/// Interval between checks of what a flush or a drain still waits for.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Longest time for answers under way when the gateway ends by itself.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// Version of the answers.
const REPLY_VERSION: u32 = 1;

/// One share, as commands reach it.
pub(crate) struct ShareControl {
    pub(crate) name: String,
    /// Bucket and prefix, as texts show them.
    pub(crate) source: String,
    pub(crate) bucket: String,
    pub(crate) prefix: String,
    pub(crate) share: Arc<dyn Share>,
    pub(crate) files: Arc<FileSystem>,
    pub(crate) writable: Option<WritableShare>,
    pub(crate) repeats: Arc<RepeatCount>,
    pub(crate) client: RetryingClient,
}

impl fmt::Debug for GatewayControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controlled").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The shares of a gateway, as commands reach them.
pub(crate) struct GatewayControl {
    pub(crate) shares: Vec<ShareControl>,
    /// Address that it is served at, as `host:port`.
    pub(crate) address: String,
    pub(crate) started: Instant,
    /// Changes of all shares are paused.
    pub(crate) is_draining: AtomicBool,
    /// Ends the gateway.
    pub(crate) stop: CancellationToken,
    /// Places for clients of the socket.
    pub(crate) client_limits: ClientLimits,
}

#[derive(Debug, Serialize)]
struct GatewayStatus {
    form: u32,
    address: String,
    seconds: f64,
    is_draining: bool,
    /// False when a share acknowledges nothing any more, or uploads nothing since another gateway has its prefix.
    is_healthy: bool,
    shares: Vec<ShareStatus>,
}

#[derive(Debug, Serialize)]
struct ShareStatus {
    share: String,
    source: String,
    read_only: bool,
    /// Calls that clients were asked to repeat later, since the start.
    repeats: u64,
    /// Bytes that clients have read of objects, and those that were fetched from the bucket for it, since the start.
    read_bytes: u64,
    fetched_bytes: u64,
    writing: Option<WriteStatus>,
}

impl GatewayControl {
    /// The state of all shares, as one line of JSON.
    pub(crate) async fn status(&self) -> String {
        serde_json::to_string(&self.collect_status().await).unwrap_or_default()
    }

    async fn collect_status(&self) -> GatewayStatus {
        let mut shares = Vec::new();
        for one in &self.shares {
            let writing = match &one.writable {
                Some(writable) => Some(writable.write_status().await),
                None => None,
            };
            let (share, source) = (one.name.clone(), one.source.clone());
            let repeats = one.repeats.get();
            let reads = one.files.stats();
            shares.push(ShareStatus {
                share,
                source,
                read_only: writing.is_none(),
                repeats,
                read_bytes: reads.bytes_wanted,
                fetched_bytes: reads.bytes_fetched,
                writing,
            });
        }
        let has_failed = |share: &ShareStatus| {
            share.writing.as_ref().is_some_and(|writing| writing.failure.is_some() || writing.claimed_by.is_some())
        };
        GatewayStatus {
            form: REPLY_VERSION,
            address: self.address.clone(),
            seconds: self.started.elapsed().as_secs_f64(),
            is_draining: self.is_draining(),
            is_healthy: !shares.iter().any(has_failed),
            shares,
        }
    }

    fn writable(&self) -> impl Iterator<Item = (&ShareControl, &WritableShare)> {
        self.shares.iter().filter_map(|one| Some((one, one.writable.as_ref()?)))
    }

    fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::SeqCst)
    }

    /// True when no change of a share is under way.
    fn is_idle(&self) -> bool {
        self.writable().all(|(_, writable)| writable.is_idle())
    }

    /// Files and removals to be done before all shares are drained, by share.
    fn drain_remainder(&self) -> Vec<(&str, FlushCounts)> {
        self.writable().map(|(one, writable)| (one.name.as_str(), writable.drain_remainder())).collect()
    }

    /// Count files that lost against another program's object, which earlier processes may have left.
    pub(crate) async fn load_conflict_count(&self) {
        for share in &self.shares {
            share.load_conflict_count().await;
        }
    }

    /// True when the bucket of each share has all that it is to have, and nothing can come any more.
    fn is_drained(&self) -> bool {
        self.is_draining() && self.is_idle() && self.writable().all(|(_, writable)| writable.is_drained())
    }

    /// End immediately, for a mount of the same source that continues with the cache. Waiting files are in the journal.
    ///
    /// # Errors
    /// While the share is served, or of another source, in words.
    fn hand_over(&self, source: &str) -> Result<(), String> {
        if !self.address.is_empty() {
            return Err("stop it, or name another folder with --cache".to_owned());
        }
        if !self.is_draining() {
            return Err(
                "its folder is mounted, or a file in it is open: unmount it and close its files, or name another \
                        folder with --cache"
                    .to_owned(),
            );
        }
        if let Some(other) = self.shares.iter().find(|share| share.source != source) {
            return Err(format!(
                "it still uploads to {}: wait for its end, or name another folder with --cache",
                other.source
            ));
        }
        self.stop.cancel();
        Ok(())
    }

    /// Pause changes, upload everything, and end the gateway then. Returns immediately.
    pub(crate) fn begin_drain(self: &Arc<Self>) {
        for (_, writable) in self.writable() {
            writable.drain();
        }
        if self.is_draining.swap(true, Ordering::SeqCst) {
            return;
        }
        let controlled = Arc::clone(self);
        tokio::spawn(async move {
            while !controlled.is_drained() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            // Outcomes that cannot be batched now stay in the journal for the next process.
            let _frozen = controlled.freeze().await;
            // Those who wait for it are answered.
            let _idle = tokio::time::timeout(SHUTDOWN_GRACE, controlled.client_limits.wait_until_idle()).await;
            controlled.stop.cancel();
        });
    }
}
