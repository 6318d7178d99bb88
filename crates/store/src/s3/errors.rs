//! Errors of requests: from replies, and from connections that gave none.

use std::error::Error;
use std::io;
use std::time::Duration;

use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_runtime_api::http::Headers;

use super::dial::{ConnectTimeout, UntrustedServer};
use super::http1::OversizedHead;
use super::xml::Element;
use crate::error::classify::code;
use crate::error::{ErrorClass, StoreError};

/// Operation, bucket and key, as errors name them.
#[derive(Debug, Clone, Copy)]
pub(super) struct ErrorContext<'a> {
    pub(super) operation: &'static str,
    pub(super) bucket: &'a str,
    pub(super) key: Option<&'a str>,
}

impl ErrorContext<'_> {
    pub(super) fn error(self, code: &str, status: Option<u16>) -> StoreError {
        StoreError::new(self.operation, self.bucket, self.key, code, status)
    }

    /// Error from a reply. Without a code in the body the status decides: HEAD has no body, a proxy has another one.
    pub(super) fn reply_error(self, status: u16, headers: &Headers, body: &[u8]) -> StoreError {
        let document = Element::read(body).unwrap_or_default();
        let field = |name| document.text(name).filter(|text| !text.is_empty());
        let mut error = match field("Code") {
            Some(code) => self.error(code, Some(status)),
            None if status < 300 => self.error(code::MALFORMED, Some(status)),
            None => self.error(code_of_status(status), Some(status)),
        };
        error = error.with_message(field("Message").unwrap_or_default());
        error.request_id = headers.get("x-amz-request-id").or(field("RequestId")).map(str::to_owned);
        error.region = headers.get("x-amz-bucket-region").or(field("Region").map(str::trim)).and_then(region_name);
        error.retry_after = retry_after(headers);
        if error.region.is_some() && status == 400 && field("Code").is_none() {
            // The answer to a HEAD with a signature for the wrong region.
            error.class = ErrorClass::Redirect;
        }
        error
    }

    /// Error for a complete success whose body is not a document with this root.
    pub(super) fn malformed_reply(self, status: u16, body: &[u8], why: Result<&str, String>, root: &str) -> StoreError {
        let form = describe_body(body);
        let is_other = SUB_RESOURCES.contains(&self.operation);
        let code = if is_other { code::UNEXPECTED_ANSWER } else { code::MALFORMED };
        let text = match why {
            Ok(other) => format!("the answer holds {other} where {root} belongs"),
            Err(_) if is_other => format!("the answer is no {root}"),
            Err(why) => why,
        };
        self.error(code, Some(status)).with_message(if is_other || form.is_empty() { text } else { form.to_owned() })
    }

    /// Error for a success without a required field: the request may or may not have had its effect.
    pub(super) fn missing_field(self, field: &str) -> StoreError {
        self.error(code::MALFORMED, Some(200)).with_message(format!("the answer has no {field}"))
    }

    /// Error for a copy that the service took for an upload.
    pub(super) fn ignored_copy(self) -> StoreError {
        self.error(code::UNEXPECTED_ANSWER, Some(200))
            .with_message("the copy was taken for an upload of no bytes: x-amz-copy-source is ignored")
    }

    /// Error for a request that got no answer.
    pub(super) fn transport_error(self, error: &(dyn Error + 'static)) -> StoreError {
        self.error(transport_code(error), None).with_message(error_chain(error))
    }

    /// Error for a request without credentials. It leaves out the output of a `credential_process`,
    /// which may hold secrets.
    pub(super) fn credentials_error(self, error: &CredentialsError) -> StoreError {
        let text = error_chain(error);
        let text = text.split("Stderr:").next().unwrap_or_default().lines().next().unwrap_or_default();
        self.error(code::NO_CREDENTIALS, None).with_message(text.trim_end_matches([' ', '.', ':']))
    }
}

/// Operations whose request differs from another one by its query alone. A service that does not know the query answers
/// the other request: GET of the object, or a listing.
const SUB_RESOURCES: [&str; 4] =
    ["GetObjectTagging", "ListMultipartUploads", "GetBucketEncryption", "GetBucketLifecycleConfiguration"];

/// Describes a body that is no answer of S3; empty if its form is unknown.
fn describe_body(body: &[u8]) -> &'static str {
    let start = body.trim_ascii_start();
    let begins = |word: &[u8]| start.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
    if start.is_empty() {
        "the answer is empty"
    } else if begins(b"<html") || begins(b"<!doctype html") {
        "the answer is a page of HTML: a proxy, a portal or a web server answers in place of S3; check the endpoint"
    } else if !start.starts_with(b"<") {
        "the answer is no XML: another program than S3 answers; check the endpoint"
    } else {
        ""
    }
}

/// Code for requests that got no answer.
fn transport_code(error: &(dyn Error + 'static)) -> &'static str {
    if sources(error).any(<dyn Error>::is::<ConnectTimeout>) {
        code::TIMED_OUT
    } else if sources(error).any(<dyn Error>::is::<UntrustedServer>) {
        code::NOT_TRUSTED
    } else if sources(error).any(is_oversized_head) {
        code::HEAD_TOO_LARGE
    } else {
        code::CONNECTION_FAILED
    }
}

/// True when the head of an answer was too large.
fn is_oversized_head(error: &(dyn Error + 'static)) -> bool {
    // An `io::Error` does not list its inner error among its causes.
    let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    held.is_some_and(<dyn Error + Send + Sync>::is::<OversizedHead>)
}

/// Code for an answer that names none, by its status.
fn code_of_status(status: u16) -> &'static str {
    match status {
        301 => "PermanentRedirect",
        304 => "NotModified",
        307 => "TemporaryRedirect",
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        408 => "RequestTimeout",
        409 => "Conflict",
        412 => "PreconditionFailed",
        416 => "InvalidRange",
        429 => "TooManyRequests",
        500 => "InternalError",
        501 => "NotImplemented",
        502 => "BadGateway",
        503 => "ServiceUnavailable",
        504 => "GatewayTimeout",
        _ => "UnexpectedStatus",
    }
}

/// A text that can be the name of a region. It becomes part of addresses and signatures, and it may come from any
/// server.
fn region_name(text: &str) -> Option<String> {
    let fits = (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    fits.then(|| text.to_owned())
}

/// Wait that `Retry-After` requests, at most 60 s: a service must not block a request indefinitely.
fn retry_after(headers: &Headers) -> Option<Duration> {
    let seconds: u64 = headers.get("retry-after")?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.min(60)))
}

/// Joins the texts of an error and its causes, outermost first, each once.
pub(super) fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut said: Vec<String> = Vec::new();
    for text in sources(error).map(ToString::to_string) {
        if !text.is_empty() && !said.iter().any(|before| before.contains(&text)) {
            said.push(text);
        }
    }
    said.join(": ")
}

/// The error and its causes, outermost first.
pub(super) fn sources<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}
