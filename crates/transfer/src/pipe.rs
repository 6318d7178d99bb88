//! One object to or from a descriptor of this process: standard output and standard input, in bounded memory.
//!
//! - [`output`]: an object of one range is verified before its first byte is written. A larger object is written in
//!   ranges. Each range is pinned and whole before it is written, and its checksum is compared where the object has
//!   checksums of parts. All bytes together are verified at the end.
//! - [`input`]: each part is verified by the checksum that is sent with it, all bytes together when the upload is
//!   completed.
//!
//! A pipe cannot be resumed, since its stream cannot be read again. A killed input leaves an open upload, which is on
//! record before its first part (see [`input`]).

mod input;
mod output;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seqferry_client::RequestError;
use seqferry_store::Checksum;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::LONGEST_WAIT;
use crate::object_outcome::{ObjectFailure, VerificationLevel};
pub(crate) use input::store_input;
pub use input::{
    FIRST_PART, GrowingInput, InputBytes, InputOptions, InputTarget, PartBytes, RateLimited, ReplaceCondition,
    ResumableInput, send_parts, store_resumable,
};
pub use output::OutputSource;
pub(crate) use output::write_output;

/// Report of a pipe that succeeded.
#[derive(Debug, Clone)]
pub struct PipeReport {
    /// Number of bytes transferred.
    pub bytes: u64,
    /// `ETag` of the object.
    pub etag: String,
    /// Version id, when the bucket keeps versions.
    pub version_id: Option<String>,
    /// Checksum of all bytes, where there is one.
    pub checksum: Option<Checksum>,
    /// Verification that the bytes are those of the object.
    pub verified: VerificationLevel,
}

/// Cause that ended a pipe without success.
#[derive(Debug)]
pub enum PipeError {
    /// The storage failed, or the bytes are wrong.
    Failed(Box<ObjectFailure>),
    /// The descriptor cannot be read or written.
    Descriptor(io::Error),
    /// The pipe was cancelled.
    Cancelled,
}

impl From<RequestError> for PipeError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Cancelled => Self::Cancelled,
            RequestError::Failed(error) => Self::Failed(Box::new(error.into())),
        }
    }
}

impl From<ObjectFailure> for PipeError {
    fn from(failure: ObjectFailure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

/// Result of a pipe.
pub type PipeResult = Result<PipeReport, PipeError>;

/// A pipe under way. Dropped, it is cancelled.
#[derive(Debug)]
pub struct Pipe {
    shared: Arc<PipeState>,
    cancel: CancellationToken,
}

#[derive(Debug, Default)]
struct PipeState {
    end: Mutex<Option<PipeResult>>,
    ended: Condvar,
    bytes: AtomicU64,
}

impl PipeState {
    fn end(&self) -> MutexGuard<'_, Option<PipeResult>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counter of the bytes transferred, for a display of progress.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByteCounter(Arc<PipeState>);

impl ByteCounter {
    fn add(&self, bytes: u64) {
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn so_far(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }
}

impl Pipe {
    /// Starts `work` with the counter of its bytes; `cancel` ends it.
    pub(crate) fn start<F>(runtime: &Handle, cancel: CancellationToken, work: impl FnOnce(ByteCounter) -> F) -> Self
    where
        F: Future<Output = PipeResult> + Send + 'static,
    {
        let shared = Arc::<PipeState>::default();
        let work = work(ByteCounter(Arc::clone(&shared)));
        let state = Arc::clone(&shared);
        runtime.spawn(async move {
            let end = work.await;
            *state.end() = Some(end);
            state.ended.notify_all();
        });
        Self { shared, cancel }
    }

    /// Waits until the pipe has ended, at most `timeout` and a minute. Returns true when it has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        let timeout = timeout.min(LONGEST_WAIT);
        let waited = self.shared.ended.wait_timeout_while(self.shared.end(), timeout, |end| end.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
    }

    /// Number of bytes transferred so far.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Cancels the pipe: it aborts an open upload, then ends.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Takes the result of the pipe; None while it runs, and after the result was taken.
    pub fn take_result(&self) -> Option<PipeResult> {
        self.shared.end().take()
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
