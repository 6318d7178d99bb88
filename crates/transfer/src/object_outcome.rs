//! The outcome of an object.

use std::fmt;

use seqferry_store::{Cause, Checksum, ErrorClass, Scope, StoreError};

/// Final state of an object in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectState {
    /// Copied and verified.
    Done,
    /// The policy accepts the existing target.
    Skipped,
    /// The object was not copied, or the copy is not valid.
    Failed,
    /// The job was cancelled before the object.
    Cancelled,
}

impl ObjectState {
    /// Stable lower-case word for records and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Method of the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyMethod {
    /// No bytes were copied.
    None,
    /// One `CopyObject`.
    Copy,
    /// Parts.
    Multipart,
    /// Read and written by this process.
    Stream,
    /// Nothing was copied: the object was removed.
    Remove,
    /// Nothing was copied: the open upload was aborted.
    Abort,
    /// Nothing was copied: the object was checked with HEAD, and compared with its record.
    Head,
    /// Nothing was copied: the bytes of the object were read, and compared with its record.
    Read,
}

impl CopyMethod {
    /// Stable lower-case word for records and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Copy => "copy",
            Self::Multipart => "multipart",
            Self::Stream => "stream",
            Self::Remove => "remove",
            Self::Abort => "abort",
            Self::Head => "head",
            Self::Read => "read",
        }
    }
}

/// Level of the verification that the target holds the source's bytes, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerificationLevel {
    /// No verification was made.
    No,
    /// Equal sizes, and the service acknowledged every part.
    Size,
    /// Equal sizes, and the file's time is the one that is kept with the object.
    Time,
    /// Equal `ETag`s that are digests of the content.
    Etag,
    /// Equal checksums.
    Checksum,
    /// Both sides were read and compared.
    Content,
}

impl VerificationLevel {
    /// Stable lower-case word for records and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::No => "none",
            Self::Size => "size",
            Self::Time => "time",
            Self::Etag => "etag",
            Self::Checksum => "checksum",
            Self::Content => "content",
        }
    }

    /// Returns the weaker of two levels.
    #[must_use]
    pub fn weaker(self, other: Self) -> Self {
        let strength = |level| match level {
            Self::No => 0,
            Self::Size | Self::Time => 1,
            Self::Etag => 2,
            Self::Checksum => 3,
            Self::Content => 4,
        };
        if strength(self) <= strength(other) { self } else { other }
    }
}

/// Class of an object's failure: the store's classes, and those that only a copy can know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// Class that the store has given.
    Store(ErrorClass),
    /// The source was overwritten or deleted meanwhile, also on the second attempt.
    SourceChanged,
    /// The target holds other bytes than the source.
    Mismatch,
    /// The target exists, and the policy forbids that.
    Exists,
}

impl FailureClass {
    /// Stable lower-case word for records and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            // A changed source shows as a missing object, or as a failed precondition.
            Self::Store(ErrorClass::NotFound | ErrorClass::Precondition) | Self::SourceChanged => "source_changed",
            Self::Store(class) => class.as_str(),
            Self::Mismatch => "mismatch",
            Self::Exists => "exists",
        }
    }
}

/// Failure of one object.
#[derive(Debug, Clone)]
pub struct ObjectFailure {
    /// Class of the failure.
    pub class: FailureClass,
    /// Scope of the failure: this object, or the whole job.
    pub scope: Scope,
    /// Cause that the store has given, where it calls for more than the class does.
    pub cause: Cause,
    /// The service's code, or one of ours.
    pub code: String,
    /// S3 operation.
    pub operation: &'static str,
    /// Text for a person: the problem, its cause, and the next step.
    pub message: String,
}

impl From<StoreError> for ObjectFailure {
    fn from(error: StoreError) -> Self {
        let message = format!("{error}. {}", error.advice());
        Self {
            class: FailureClass::Store(error.class),
            scope: error.scope,
            cause: error.cause(),
            code: error.code,
            operation: error.operation,
            message,
        }
    }
}

impl ObjectFailure {
    /// A failure of this object alone.
    pub fn new(class: FailureClass, code: &str, operation: &'static str, message: String) -> Self {
        Self { class, scope: Scope::Object, cause: Cause::Other, code: code.to_owned(), operation, message }
    }
}

impl fmt::Display for ObjectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ObjectFailure {}

/// Outcome of one object in a job.
#[derive(Debug, Clone)]
pub struct ObjectOutcome {
    /// The item's id.
    pub id: u64,
    /// Bytes of the source that was copied: as listed, or as it was when it had changed since.
    pub size: u64,
    /// `ETag` of the source that was copied.
    pub source_etag: String,
    /// Final state.
    pub state: ObjectState,
    /// Method of the copy.
    pub method: CopyMethod,
    /// Seconds since the epoch.
    pub started_at: f64,
    /// Seconds since the epoch.
    pub ended_at: f64,
    /// Number of attempts in this job.
    pub attempts: u32,
    /// Number of retries.
    pub retries: u32,
    /// `ETag` of the target.
    pub target_etag: Option<String>,
    /// Version id of the target, where it has versions.
    pub target_version_id: Option<String>,
    /// Checksum that the service keeps for the target.
    pub checksum: Option<Checksum>,
    /// Verification that the target holds the source's bytes.
    pub verified: VerificationLevel,
    /// Properties of the source that the target lacks.
    pub not_carried: Vec<String>,
    /// Set when failed.
    pub failure: Option<ObjectFailure>,
}

impl ObjectOutcome {
    /// The outcome of an object that was cancelled before it began, at this time.
    pub(crate) fn of(id: u64, at: f64) -> Self {
        Self {
            id,
            size: 0,
            source_etag: String::new(),
            state: ObjectState::Cancelled,
            method: CopyMethod::None,
            started_at: at,
            ended_at: at,
            attempts: 1,
            retries: 0,
            target_etag: None,
            target_version_id: None,
            checksum: None,
            verified: VerificationLevel::No,
            not_carried: Vec::new(),
            failure: None,
        }
    }
}
