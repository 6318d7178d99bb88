//! Tests that each error code in an answer becomes an error of the right class and scope.
//!
//! The table here is written by hand from the S3 error list, and states the expected reaction of the engine. It and the
//! store's own table must name the same codes: a developer who adds a code there adds its class and scope here.

use std::collections::BTreeSet;

use seqferry_store::error::classify::{TABLE, classify, code};
use seqferry_store::prelude::*;
use seqferry_store::{CopyTarget, ErrorClass, Scope, StoreError};

use crate::server::{Reply, Request, Wire};
use crate::{get, object, store_at};

use ErrorClass::{Capability, Credentials, NotFound, Object, Person, Precondition, Redirect, Retry, Throttle};

/// Code, HTTP status, class, scope.
type Expectation = (&'static str, u16, ErrorClass, Scope);

const ONE: Scope = Scope::Object;
const JOB: Scope = Scope::Job;

const EXPECTED: &[Expectation] = &[
    ("SlowDown", 503, Throttle, ONE),
    ("503 SlowDown", 503, Throttle, ONE),
    ("Busy", 503, Throttle, ONE),
    ("ServiceUnavailable", 503, Throttle, ONE),
    ("Throttling", 400, Throttle, ONE),
    ("ThrottlingException", 400, Throttle, ONE),
    ("TooManyRequests", 429, Throttle, ONE),
    ("TooManyRequestsException", 429, Throttle, ONE),
    ("RequestLimitExceeded", 503, Throttle, ONE),
    ("BandwidthLimitExceeded", 509, Throttle, ONE),
    ("KMS.ThrottlingException", 400, Throttle, ONE),
    ("InternalError", 500, Retry, ONE),
    ("RequestTimeout", 400, Retry, ONE),
    ("IncompleteBody", 400, Retry, ONE),
    ("OperationAborted", 409, Retry, ONE),
    ("ConditionalRequestConflict", 409, Retry, ONE),
    ("RequestTimeTooSkewed", 403, Retry, ONE),
    ("BadDigest", 400, Retry, ONE),
    ("InvalidDigest", 400, Retry, ONE),
    ("XAmzContentSHA256Mismatch", 400, Retry, ONE),
    ("XAmzContentChecksumMismatch", 400, Retry, ONE),
    ("ExpiredToken", 400, Credentials, JOB),
    ("ExpiredTokenException", 400, Credentials, JOB),
    ("TokenRefreshRequired", 400, Credentials, JOB),
    ("RequestExpired", 400, Credentials, JOB),
    ("InvalidToken", 400, Credentials, JOB),
    ("PermanentRedirect", 301, Redirect, JOB),
    ("TemporaryRedirect", 307, Redirect, JOB),
    ("Redirect", 307, Redirect, JOB),
    ("AuthorizationHeaderMalformed", 400, Redirect, JOB),
    ("IllegalLocationConstraintException", 400, Redirect, JOB),
    ("PreconditionFailed", 412, Precondition, ONE),
    ("NotModified", 304, Precondition, ONE),
    ("NoSuchKey", 404, NotFound, ONE),
    ("NoSuchVersion", 404, NotFound, ONE),
    ("NoSuchUpload", 404, NotFound, ONE),
    ("NotFound", 404, NotFound, ONE),
    ("InvalidPart", 400, Object, ONE),
    ("InvalidPartOrder", 400, Object, ONE),
    ("EntityTooSmall", 400, Object, ONE),
    ("EntityTooLarge", 400, Object, ONE),
    ("InvalidRange", 416, Object, ONE),
    ("KeyTooLongError", 400, Object, ONE),
    ("MetadataTooLarge", 400, Object, ONE),
    ("InvalidTag", 400, Object, ONE),
    ("InvalidRequest", 400, Object, ONE),
    ("InvalidArgument", 400, Object, ONE),
    ("InvalidURI", 400, Object, ONE),
    ("InvalidStorageClass", 400, Object, JOB),
    ("AccessDenied", 403, Person, ONE),
    ("Forbidden", 403, Person, ONE),
    ("InvalidObjectState", 403, Person, ONE),
    ("RestoreAlreadyInProgress", 409, Person, ONE),
    ("ObjectNotInActiveTierError", 403, Person, ONE),
    ("KMS.DisabledException", 400, Person, ONE),
    ("KMS.NotFoundException", 400, Person, ONE),
    ("KMS.KMSInvalidStateException", 400, Person, ONE),
    ("KMS.InvalidKeyUsageException", 400, Person, ONE),
    ("QuotaExceeded", 507, Person, JOB),
    ("InvalidAccessKeyId", 403, Person, JOB),
    ("SignatureDoesNotMatch", 403, Person, JOB),
    ("InvalidSecurity", 403, Person, JOB),
    ("NoSuchBucket", 404, Person, JOB),
    ("InvalidBucketName", 400, Person, JOB),
    ("AllAccessDisabled", 403, Person, JOB),
    ("AccountProblem", 403, Person, JOB),
    ("NotSignedUp", 403, Person, JOB),
    ("NotImplemented", 501, Capability, ONE),
    ("MissingContentLength", 411, Capability, ONE),
    ("MethodNotAllowed", 405, Capability, ONE),
    ("UnsupportedOperation", 501, Capability, ONE),
];

/// Codes of our own, which no server sends. The tests in `broken`, `answers`, `credentials` and for the leases of
/// `seqferry-transfer` cause them.
const OURS: &[&str] = &[
    code::CONNECTION_FAILED,
    code::TIMED_OUT,
    code::TRUNCATED,
    code::MALFORMED,
    code::LEASE_LAPSED,
    code::RANGE_IGNORED,
    code::HEAD_TOO_LARGE,
    code::CONTRADICTORY_LISTING,
    code::TRANSFORMED,
    code::UNEXPECTED_ANSWER,
    code::NO_CREDENTIALS,
    code::NO_PROFILE_CREDENTIALS,
    code::NOT_TRUSTED,
];

/// Failures of disks. The tests of disks cause them.
const DISKS: &[(&str, ErrorClass, Scope)] = &[
    (code::DISK_FULL, Person, JOB),
    (code::READ_ONLY, Person, JOB),
    (code::NO_SUCH_FOLDER, Person, JOB),
    (code::FOLDER_DENIED, Person, JOB),
    (code::PERMISSION_DENIED, Person, ONE),
    (code::DISK_ERROR, Retry, ONE),
    (code::FOLDER_VANISHED, Retry, ONE),
    (code::TOO_MANY_OPEN_FILES, Throttle, ONE),
    (code::FILE_TOO_LARGE, Object, ONE),
    (code::DOT_SEGMENT, Object, ONE),
    (code::EMPTY_SEGMENT, Object, ONE),
    (code::NUL_IN_KEY, Object, ONE),
    (code::NAME_TOO_LONG, Object, ONE),
    (code::NAME_NOT_ALLOWED, Object, ONE),
    (code::RESERVED_NAME, Object, ONE),
    (code::FOLDER_WITH_BYTES, Object, ONE),
    (code::FILE_IN_THE_WAY, Object, ONE),
    (code::FOLDER_IN_THE_WAY, Object, ONE),
    (code::SYMLINK_IN_THE_WAY, Object, ONE),
    (code::CASE_COLLISION, Object, ONE),
    (code::SPECIAL_FILE_IN_THE_WAY, Object, ONE),
    ("ObjectParentIsFile", Object, ONE),
    ("ExistingObjectIsDirectory", Object, ONE),
    (code::SPECIAL_FILE, NotFound, ONE),
    (code::NAME_NOT_UTF8, Object, ONE),
    (code::SYMLINK_SKIPPED, NotFound, ONE),
    (code::SYMLINK_DANGLING, NotFound, ONE),
    (code::SYMLINK_LOOP, NotFound, ONE),
];

#[test]
fn every_code_of_the_table_is_expected_here_and_no_other() {
    let known: BTreeSet<&str> = TABLE.iter().map(|(code, ..)| *code).collect();
    let disks = DISKS.iter().map(|(code, ..)| *code);
    let expected: BTreeSet<&str> =
        EXPECTED.iter().map(|(code, ..)| *code).chain(OURS.iter().copied()).chain(disks).collect();

    assert_eq!(known, expected);
}

#[test]
fn failures_of_disks_have_their_classes() {
    for &(code, class, scope) in DISKS {
        assert_eq!(classify("PutObject", code, None), (class, scope), "{code}");
    }
}

/// Answers with the code and status that the object's key names: `CODE@STATUS`.
fn refuse(request: &Request, _: usize) -> Reply {
    let path = percent_decoded(request.path());
    let (code, status) = path.trim_start_matches("/bucket/").rsplit_once('@').expect("a key that names its answer");
    Reply::error(status.parse().expect("a status"), code)
}

fn percent_decoded(path: &str) -> String {
    path.replace("%20", " ").replace("%40", "@")
}

fn check(error: &StoreError, operation: &str, (code, status, class, scope): Expectation) {
    assert_eq!(
        (error.operation, error.code.as_str(), error.status, error.class, error.scope),
        (operation, code, Some(status), class, scope),
        "{error:?}"
    );
}

#[tokio::test]
async fn every_code_has_its_class_when_answered_to_a_get() {
    let server = Wire::serve(refuse);
    let store = store_at(&server.url()).await;

    for &expectation in EXPECTED {
        let (code, status, ..) = expectation;
        let error = get(&store, &format!("{code}@{status}")).await.expect_err("an error");

        check(&error, "GetObject", expectation);
    }
}

#[tokio::test]
async fn every_code_has_its_class_when_answered_to_a_copy() {
    let server = Wire::serve(refuse);
    let store = store_at(&server.url()).await;

    for &expectation in EXPECTED {
        let (code, status, ..) = expectation;
        let key = format!("{code}@{status}");
        let error = store.copy(&object("source"), CopyTarget::new("bucket", &key)).await.expect_err("an error");

        check(&error, "CopyObject", expectation);
        if status != 304 {
            assert_eq!(error.message, format!("the text of {code}"));
            assert_eq!(error.request_id.as_deref(), Some("REQUEST0001"));
        }
        assert_eq!((error.bucket.as_str(), error.key.as_deref()), ("bucket", Some(key.as_str())));
    }
}

#[tokio::test]
async fn each_request_is_made_once_whatever_the_answer() {
    let server = Wire::serve(refuse);
    let store = store_at(&server.url()).await;

    for (code, status, ..) in EXPECTED {
        let before = server.requests().len();
        get(&store, &format!("{code}@{status}")).await.expect_err("an error");

        assert_eq!(server.requests().len(), before + 1, "{code} was tried again");
    }
}

#[tokio::test]
async fn codes_that_nobody_knows_go_by_their_status() {
    let server = Wire::serve(refuse);
    let store = store_at(&server.url()).await;
    let statuses = [
        (400, Object),
        (401, Person),
        (403, Person),
        (404, NotFound),
        (405, Capability),
        (408, Retry),
        (409, Retry),
        (412, Precondition),
        (429, Throttle),
        (500, Retry),
        (501, Capability),
        (502, Retry),
        (503, Throttle),
        (504, Retry),
        (599, Retry),
    ];

    for (status, class) in statuses {
        check(
            &get(&store, &format!("Mystery@{status}")).await.expect_err("an error"),
            "GetObject",
            ("Mystery", status, class, ONE),
        );
    }
}

#[tokio::test]
async fn answers_without_a_code_go_by_their_status() {
    let expected = [
        (400, Object),
        (403, Person),
        (404, NotFound),
        (405, Capability),
        (408, Retry),
        (409, Retry),
        (412, Precondition),
        (416, Object),
        (429, Throttle),
        (500, Retry),
        (501, Capability),
        (502, Retry),
        (503, Throttle),
        (504, Retry),
        (520, Retry),
    ];

    for (status, class) in expected {
        // A proxy in between answers in a form of its own.
        for body in ["", "<html><body>the proxy is sorry</body></html>"] {
            let server = Wire::always(Reply::new(status, &[("content-type", "text/html")], body));
            let error = get(&store_at(&server.url()).await, "key").await.expect_err("an error");

            assert_eq!((error.class, error.status), (class, Some(status)), "{status} with {body:?}: {error:?}");
            assert!(!error.code.is_empty() && error.code != "UnexpectedStatus" || status == 520, "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_bucket_that_is_not_there_stops_the_job() {
    let server = Wire::always(Reply::head(404, &[]));
    let error = store_at(&server.url()).await.head_bucket("bucket").await.expect_err("an error");

    check(&error, "HeadBucket", ("NoSuchBucket", 404, Person, JOB));
    assert_eq!(error.advice(), seqferry_store::Advice::CheckBucket);
}

#[tokio::test]
async fn a_refused_bucket_stops_the_job() {
    // HEAD has no body that could hold the code; listing has.
    for code in ["AccessDenied", "InvalidAccessKeyId"] {
        let server = Wire::serve(move |request, _| match request.method.as_str() {
            "HEAD" => Reply::head(403, &[]),
            _ => Reply::error(403, code),
        });
        let error = store_at(&server.url()).await.head_bucket("bucket").await.expect_err("an error");

        assert_eq!((error.code.as_str(), error.class, error.scope), (code, Person, JOB), "{error:?}");
    }
}

#[tokio::test]
async fn a_wrong_whole_checksum_at_completion_is_no_matter_for_another_try() {
    let server = Wire::always(Reply::error(400, "BadDigest"));
    let store = store_at(&server.url()).await;

    let completed = crate::WriteOperation::Complete.send(&store).await.expect_err("an error");
    let copied = crate::WriteOperation::Copy.send(&store).await.expect_err("an error");

    assert_eq!((completed.class, copied.class), (Object, Retry));
}
