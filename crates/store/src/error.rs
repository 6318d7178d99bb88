//! Errors of requests, classified once.
//!
//! A [`StoreError`] holds the operation, the object, the service's code and text, and its [`ErrorClass`], which tells
//! the layers above how to react. They never read codes or HTTP statuses themselves. The mapping is the table in
//! [`classify`](mod@classify). Messages hold no secret: no keys, tokens, signatures or signed URLs.

use std::fmt;
use std::time::Duration;

mod advice;
pub mod classify;

pub use advice::Advice;

/// Bytes of a service's text and of its code that are kept: a hostile service could send more, and both are recorded
/// with each object.
const LONGEST_MESSAGE: usize = 1 << 10;
const LONGEST_CODE: usize = 128;

/// Class of a failure: the action that it calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The same request may succeed on another attempt.
    Retry,
    /// The service asks for fewer requests: wait, and send less.
    Throttle,
    /// The credentials have expired: reload them once, then try again.
    Credentials,
    /// Another region's endpoint serves this bucket.
    Redirect,
    /// A condition we set does not hold: the source changed, or the target is there already.
    Precondition,
    /// The object, version or upload is not there.
    NotFound,
    /// The object cannot be handled as requested; others can.
    Object,
    /// The user has to change something: permissions, an archived object, a missing bucket.
    Person,
    /// The service lacks a requested feature: do without it, or report it.
    Capability,
}

impl ErrorClass {
    /// Stable lower-case word for rows, JSON and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Throttle => "throttle",
            Self::Credentials => "credentials",
            Self::Redirect => "redirect",
            Self::Precondition => "precondition",
            Self::NotFound => "not_found",
            Self::Object => "object",
            Self::Person => "person",
            Self::Capability => "capability",
        }
    }
}

/// Reach of a failure: one object, or the whole job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Other objects of the job may succeed.
    Object,
    /// No other object of the job can succeed.
    Job,
}

/// Cause of a failure that layers above treat in a way of its own. Its class may hold several causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The multipart upload is not there: it was completed or aborted.
    UploadGone,
    /// The object or version is not there, though its bucket is.
    SourceGone,
    /// A part of a completion is not one that the upload holds.
    BadPart,
    /// The parts of a completion are not in order.
    BadPartOrder,
    /// The received bytes do not have the digest that was sent with them.
    BadDigest,
    /// The answer to a ranged request is not that range.
    RangeIgnored,
    /// The bytes of the object are compressed or decompressed on the way.
    Transformed,
    /// The object is archived, and has no readable copy.
    Archived,
    /// The service does not accept the form of the request (`InvalidRequest`).
    BadRequest,
    /// A HEAD is refused by a status 400 alone, without a code: all that a service says there of an expired token.
    BareRefusal,
    /// The answer is a success without a result: a write may have had its effect.
    Unclear,
    /// The process held no lease to write any more: the request was not sent.
    LeaseLapsed,
    /// Any other: the class alone decides.
    Other,
}

/// Result of every request to a store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// A failed request.
#[derive(Debug, Clone)]
pub struct StoreError {
    /// S3 operation, for example `UploadPartCopy`.
    pub operation: &'static str,
    /// Bucket the request went to.
    pub bucket: String,
    /// Key the request was about; none for requests about a bucket.
    pub key: Option<String>,
    /// Action that the failure calls for.
    pub class: ErrorClass,
    /// Reach of the failure.
    pub scope: Scope,
    /// The service's code, or one of ours for failures that never got an answer (`ConnectionFailed`, `TimedOut`, ...).
    pub code: String,
    /// HTTP status, when there was an answer.
    pub status: Option<u16>,
    /// The service's text, or what the transport said.
    pub message: String,
    /// The service's id of the request, for its support.
    pub request_id: Option<String>,
    /// Region that serves the bucket, learned from a redirect.
    pub region: Option<String>,
    /// Time that the service asks to wait.
    pub retry_after: Option<Duration>,
}

impl StoreError {
    /// Creates an error with class and scope from the table; the other attributes can be set later.
    pub fn new(operation: &'static str, bucket: &str, key: Option<&str>, code: &str, status: Option<u16>) -> Self {
        let (class, scope) = classify::classify(operation, code, status);
        Self {
            operation,
            bucket: bucket.to_owned(),
            key: key.map(str::to_owned),
            class,
            scope,
            code: cut(code.to_owned(), LONGEST_CODE),
            status,
            message: String::new(),
            request_id: None,
            region: None,
            retry_after: None,
        }
    }

    /// Adds the service's text, of which the first KiB is kept.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = cut(message.into(), LONGEST_MESSAGE);
        self
    }

    /// The cause, where it calls for more than its class does.
    pub fn cause(&self) -> Cause {
        classify::cause(self.operation, &self.code, self.class)
    }

    /// True when other or corrected credentials could succeed.
    pub fn is_about_credentials(&self) -> bool {
        self.class == ErrorClass::Credentials
            || matches!(
                self.code.as_str(),
                classify::code::NO_CREDENTIALS
                    | classify::code::NO_PROFILE_CREDENTIALS
                    | "InvalidAccessKeyId"
                    | "SignatureDoesNotMatch"
                    | "InvalidSecurity"
            )
    }

    /// True when these credentials lack a permission for this request, and may have others.
    pub fn is_denied(&self) -> bool {
        matches!(self.code.as_str(), "AccessDenied" | "Forbidden")
    }

    /// True when the received bytes do not match their checksum or digest.
    pub fn is_about_bytes(&self) -> bool {
        matches!(self.code.as_str(), "BadDigest" | "XAmzContentSHA256Mismatch" | "XAmzContentChecksumMismatch")
    }

    /// True when the service refuses the request because of a checksum that it names or lacks.
    pub fn is_about_checksums(&self) -> bool {
        matches!(self.code.as_str(), "InvalidRequest" | "InvalidArgument")
            && self.message.to_ascii_lowercase().contains("checksum")
    }

    /// True when the name belongs to something that is no object: a link that is not followed, a device.
    pub fn is_not_an_object(&self) -> bool {
        use classify::code::{SPECIAL_FILE, SYMLINK_DANGLING, SYMLINK_LOOP, SYMLINK_SKIPPED};
        matches!(self.code.as_str(), SPECIAL_FILE | SYMLINK_DANGLING | SYMLINK_LOOP | SYMLINK_SKIPPED)
    }

    /// Next step for the user.
    pub fn advice(&self) -> Advice {
        classify::advice(self.operation, &self.code, self.class)
    }
}

/// Cuts a text to at most `most` bytes, with `...` at the end.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most - 3));
        text.push_str("...");
        text.shrink_to_fit();
    }
    text
}

/// A bucket, or an object in it, as error texts show it.
#[derive(Debug, Clone, Copy)]
pub struct ObjectUri<'a>(pub &'a str, pub Option<&'a str>);

impl fmt::Display for ObjectUri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bucket, key) = *self;
        // A bucket's name never begins with a slash: this is a folder on a disk.
        let scheme = if bucket.starts_with('/') { "" } else { "s3://" };
        write!(f, "{scheme}{}", bucket.trim_end_matches('/'))?;
        key.map_or(Ok(()), |key| write!(f, "/{key}"))
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.operation, ObjectUri(&self.bucket, self.key.as_deref()), self.code)?;
        if let Some(status) = self.status {
            write!(f, " ({status})")?;
        }
        if !self.message.is_empty() && self.message != self.code {
            // Some services end their text with a full stop; here another sentence follows.
            write!(f, ": {}", self.message.trim_end_matches('.'))?;
        }
        if let Some(region) = &self.region {
            write!(f, " [bucket region {region}]")?;
        }
        Ok(())
    }
}

impl std::error::Error for StoreError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_apart_within_a_class() {
        let cause = |operation, code, status| StoreError::new(operation, "b", Some("k"), code, Some(status)).cause();
        assert_eq!(cause("UploadPart", "NoSuchUpload", 404), Cause::UploadGone);
        assert_eq!(cause("GetObject", "NoSuchVersion", 404), Cause::SourceGone);
        assert_eq!(cause("HeadObject", "NotFound", 404), Cause::SourceGone);
        assert_eq!(cause("GetObject", "NoSuchBucket", 404), Cause::Other);
        assert_eq!(cause("CompleteMultipartUpload", "InvalidPart", 400), Cause::BadPart);
        assert_eq!(cause("CompleteMultipartUpload", "InvalidPartOrder", 400), Cause::BadPartOrder);
        assert_eq!(cause("PutObject", "BadDigest", 400), Cause::BadDigest);
        assert_eq!(cause("GetObject", classify::code::RANGE_IGNORED, 200), Cause::RangeIgnored);
        assert_eq!(cause("GetObject", "InvalidObjectState", 403), Cause::Archived);
        assert_eq!(cause("GetObject", classify::code::TRANSFORMED, 200), Cause::Transformed);
        assert_eq!(cause("CompleteMultipartUpload", "InvalidRequest", 400), Cause::BadRequest);
        assert_eq!(cause("HeadObject", "BadRequest", 400), Cause::BareRefusal);
        assert_eq!(cause("GetObject", "BadRequest", 400), Cause::Other);
        assert_eq!(cause("PutObject", classify::code::MALFORMED, 200), Cause::Unclear);
        assert_eq!(cause("PutObject", classify::code::LEASE_LAPSED, 0), Cause::LeaseLapsed);
    }

    #[test]
    fn what_a_service_says_is_kept_up_to_a_length() {
        let said = |code: &str, message: &str| {
            StoreError::new("PutObject", "bucket", Some("key"), code, Some(400)).with_message(message)
        };

        let short = said("Odd", &"m".repeat(LONGEST_MESSAGE));
        assert_eq!((short.code.as_str(), short.message.len()), ("Odd", LONGEST_MESSAGE));
        assert!(short.message.ends_with('m'));

        for character in ["m", "\u{e9}", "\u{20ac}", "\u{1f9ec}"] {
            let long = said(&character.repeat(1 << 18), &character.repeat(1 << 18));
            for (text, most) in [(&long.code, LONGEST_CODE), (&long.message, LONGEST_MESSAGE)] {
                assert!(text.len() <= most && text.len() > most - 4, "{} bytes", text.len());
                assert_eq!(text.trim_end_matches('.').replace(character, ""), "", "cut between characters");
                assert!(text.ends_with("..."));
            }
            assert!(long.to_string().len() < 2 * LONGEST_MESSAGE);
        }
    }
}
