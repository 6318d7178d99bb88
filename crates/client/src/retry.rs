//! The retry policy: which failed requests are sent again, and after which pause.
//!
//! The class of an error decides whether another attempt can help; the table of classes is the store's. Pauses grow up
//! to a ceiling and are drawn at random below it.

use std::time::Duration;

use seqferry_store::{Cause, ErrorClass, StoreError};

/// Pauses that double with each failure up to the longest.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// Limit of all.
    pub longest: Duration,
}

impl Backoff {
    /// The pause after `failures` others in a row.
    pub fn after(self, failures: u32) -> Duration {
        self.first.saturating_mul(2_u32.saturating_pow(failures)).min(self.longest)
    }
}

/// Number of attempts of a request, and the pauses between them. Pauses are drawn evenly from zero to the ceiling
/// ("full jitter"), so that many requests that failed together do not come back together.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Attempts of a request that fails for passing reasons, the first included.
    pub attempts: u32,
    /// Attempts of a request that the service refuses for want of capacity, the first included.
    pub throttled_attempts: u32,
    /// First ceiling for passing failures; doubles with each.
    pub base: Duration,
    /// First ceiling for throttled requests; doubles with each.
    pub throttled_base: Duration,
    /// Attempts of a request that new credentials can help, the first included. They are loaded before each retry.
    pub credentials_attempts: u32,
    /// First ceiling for requests that new credentials can help; doubles with each.
    pub credentials_base: Duration,
    /// The credentials have worked before: where they are refused or missing, new ones are expected to come soon.
    pub awaits_credentials: bool,
    /// Largest ceiling.
    pub most: Duration,
}

/// Attempts at a write before the first check of the target: what fails this often rarely passes immediately, and each
/// further attempt sends the bytes again.
pub(crate) const ATTEMPTS_BEFORE_LOOK: u32 = 3;

/// Attempts of a read whose answers are not understood, the first included: two seconds at most.
const UNCLEAR_READS: u32 = 5;

/// True for the answer to a write that is a success and holds no result: the write may have had its effect.
pub(crate) fn is_unclear(error: &StoreError) -> bool {
    error.cause() == Cause::Unclear
}

/// True for failures of a service or of the way to it that may pass: a write may have had its effect.
pub(crate) fn is_passing(error: &StoreError) -> bool {
    error.class == ErrorClass::Retry && !is_unclear(error)
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            // Half a minute on average, a minute at most: a service that is started again is back by then.
            attempts: 11,
            // About two minutes: the ramp-up of a prefix takes minutes.
            throttled_attempts: 12,
            base: Duration::from_millis(100),
            throttled_base: Duration::from_millis(500),
            // Once, after the credentials were loaded again.
            credentials_attempts: 3,
            credentials_base: Duration::from_millis(100),
            awaits_credentials: false,
            most: Duration::from_secs(20),
        }
    }
}

impl RetryPolicy {
    /// Few attempts: for requests that a person waits for.
    #[must_use]
    pub fn impatient() -> Self {
        Self { attempts: 4, throttled_attempts: 4, most: Duration::from_secs(2), ..Self::default() }
    }

    /// The same policy with the number of attempts from the user's settings, if they have one.
    #[must_use]
    pub fn with_attempts(self, attempts: Option<u32>) -> Self {
        attempts.map_or(self, |attempts| Self { attempts, throttled_attempts: attempts, ..self })
    }

    /// True when the request may succeed with credentials that are loaded again.
    pub fn renews_credentials(&self, error: &StoreError) -> bool {
        // The answer to a HEAD has no code: a 400 is all that it says of an expired token.
        let is_bare_refusal = error.cause() == Cause::BareRefusal;
        error.class == ErrorClass::Credentials
            || self.awaits_credentials && (error.is_about_credentials() || is_bare_refusal)
    }

    /// Number of attempts at a request that failed with `error`, when its class allows `attempts`.
    ///
    /// A write whose answer is not understood may have had its effect: the target is checked before it is repeated
    /// ([`RetryingClient::put_object`](crate::RetryingClient::put_object), [`UploadSession`](crate::UploadSession)).
    /// Other writes have no such look, and are made again. A read is made a few times more: what answers with something
    /// else, such as the page of a proxy, rarely stops after seconds, and a person waits for the words.
    fn attempts(error: &StoreError, attempts: u32) -> u32 {
        match error.operation {
            _ if !is_unclear(error) => attempts,
            "PutObject" | "CopyObject" | "CompleteMultipartUpload" | "UploadPart" | "UploadPartCopy" => 1,
            "CreateMultipartUpload" | "DeleteObject" | "DeleteObjects" | "PutObjectTagging" | "CreateBucket" => {
                attempts.min(2)
            }
            _ => attempts.min(UNCLEAR_READS),
        }
    }

    /// The pause before attempt number `attempt` (2-based), drawn by `share` in 0..1. None: no further attempt.
    pub fn pause(&self, error: &StoreError, attempt: u32, share: f64) -> Option<Duration> {
        let (attempts, base) = match error.class {
            ErrorClass::Retry => (self.attempts, self.base),
            ErrorClass::Throttle => (self.throttled_attempts, self.throttled_base),
            _ if self.renews_credentials(error) => (self.credentials_attempts, self.credentials_base),
            _ => return None,
        };
        if attempt > Self::attempts(error, attempts) {
            return None;
        }
        let ceiling = Backoff { first: base, longest: self.most }.after(attempt - 2);
        Some(ceiling.mul_f64(share).max(error.retry_after.unwrap_or_default().min(self.most)))
    }
}

#[cfg(test)]
mod tests {
    use seqferry_store::error::classify::code::MALFORMED;

    use super::*;

    fn error(code: &str, status: u16) -> StoreError {
        StoreError::new("CopyObject", "b", Some("k"), code, Some(status))
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_mins(5) };
        let pauses = [0, 1, 8, 9, u32::MAX].map(|failures| backoff.after(failures).as_secs());
        assert_eq!(pauses, [1, 2, 256, 300, 300]);
    }

    #[test]
    fn passing_failures_are_retried_with_growing_pauses_up_to_a_ceiling() {
        let policy = RetryPolicy::default();
        let failed = error("InternalError", 500);

        assert_eq!(policy.pause(&failed, 2, 1.0), Some(Duration::from_millis(100)));
        assert_eq!(policy.pause(&failed, 3, 1.0), Some(Duration::from_millis(200)));
        assert_eq!(policy.pause(&failed, 3, 0.5), Some(Duration::from_millis(100)));
        assert_eq!(policy.pause(&failed, 8, 1.0), Some(Duration::from_millis(6400)));
        assert_eq!(policy.pause(&failed, 11, 1.0), Some(Duration::from_secs(20)));
        assert_eq!(policy.pause(&failed, 12, 1.0), None);
    }

    #[test]
    fn a_write_whose_answer_is_not_understood_is_not_repeated_blindly() {
        let policy = RetryPolicy::default();
        let paused = |operation: &'static str, attempt| {
            let unclear = StoreError::new(operation, "b", Some("k"), MALFORMED, Some(200));
            policy.pause(&unclear, attempt, 1.0).is_some()
        };

        for operation in ["PutObject", "CopyObject", "CompleteMultipartUpload", "UploadPart", "UploadPartCopy"] {
            assert!(!paused(operation, 2), "{operation}");
        }
        for operation in ["CreateMultipartUpload", "DeleteObjects"] {
            assert!(paused(operation, 2) && !paused(operation, 3), "{operation}");
        }
        assert!(paused("ListObjectsV2", 5) && !paused("ListObjectsV2", 6), "reads have no effect");
    }

    #[test]
    fn throttled_requests_wait_longer_and_as_long_as_the_service_asks() {
        let policy = RetryPolicy::default();
        let mut failed = error("SlowDown", 503);

        assert_eq!(policy.pause(&failed, 2, 1.0), Some(Duration::from_millis(500)));
        assert_eq!(policy.pause(&failed, 12, 1.0), Some(Duration::from_secs(20)));
        assert_eq!(policy.pause(&failed, 13, 1.0), None);
        failed.retry_after = Some(Duration::from_secs(3));
        assert_eq!(policy.pause(&failed, 2, 0.0), Some(Duration::from_secs(3)));
    }

    #[test]
    fn expired_credentials_are_waited_for_as_long_as_the_policy_says() {
        let expired = error("ExpiredToken", 400);
        let head = StoreError::new("HeadObject", "b", Some("k"), "BadRequest", Some(400));
        let brief = RetryPolicy::default();
        let patient = RetryPolicy {
            credentials_attempts: 12,
            credentials_base: Duration::from_millis(500),
            awaits_credentials: true,
            ..brief
        };

        assert_eq!(brief.pause(&expired, 3, 1.0), Some(Duration::from_millis(200)));
        assert_eq!(brief.pause(&expired, 4, 1.0), None);
        for error in [&expired, &error("InvalidAccessKeyId", 403), &error("NoCredentials", 403), &head] {
            assert_eq!(patient.pause(error, 4, 1.0), Some(Duration::from_secs(2)), "{}", error.code);
            assert_eq!(patient.pause(error, 13, 1.0), None, "{}", error.code);
            assert_eq!(brief.renews_credentials(error), error.code == "ExpiredToken", "{}", error.code);
        }
        assert_eq!(patient.pause(&error("AccessDenied", 403), 2, 1.0), None);
    }

    #[test]
    fn what_cannot_pass_is_not_retried() {
        for (code, status) in [
            ("AccessDenied", 403),
            ("NoSuchKey", 404),
            ("PreconditionFailed", 412),
            ("NotImplemented", 501),
            ("InvalidArgument", 400),
        ] {
            assert_eq!(RetryPolicy::default().pause(&error(code, status), 2, 0.5), None, "{code}");
        }
    }
}
