//! Conversion of SDK errors and of answers without a body into our errors: codes, regions, waits, causes.

use std::error::Error;
use std::io;
use std::time::Duration;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::RequestId;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::Headers;

use super::causes::sources;
use super::convert::other_answer;
use super::dial::UntrustedServer;
use super::http1::OversizedHead;
use crate::error::classify::code;
use crate::error::{ErrorClass, StoreError};

/// Classifies an error of the SDK.
pub(super) fn failure<E>(
    operation: &'static str,
    bucket: &str,
    key: Option<&str>,
    error: &SdkError<E, HttpResponse>,
) -> StoreError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let new = |code: &str, status| StoreError::new(operation, bucket, key, code, status);
    match error {
        SdkError::ServiceError(service) => {
            let (meta, raw) = (service.err().meta(), service.raw());
            let status = raw.status().as_u16();
            let mut failed = match meta.code() {
                Some(code) if !code.is_empty() => new(code, Some(status)),
                _ if status < 300 => unreadable(operation, raw.body().bytes(), &new, status),
                // HEAD has no body: the status is all there is.
                _ => new(reason(status), Some(status)),
            };
            if let Some(message) = meta.message().filter(|message| !message.is_empty()) {
                failed = failed.with_message(message);
            }
            failed.request_id = meta.request_id().map(str::to_owned);
            failed.region = region_hint(raw.headers(), raw.body().bytes().unwrap_or_default());
            failed.retry_after = retry_after(raw.headers());
            if failed.region.is_some() && status == 400 && meta.code().is_none() {
                // The answer to a HEAD with a signature for the wrong region.
                failed.class = ErrorClass::Redirect;
            }
            failed
        }
        SdkError::ResponseError(response) => {
            let status = response.raw().status().as_u16();
            let failed = match response.raw().body().bytes() {
                body @ Some(_) if status < 300 => unreadable(operation, body, &new, status),
                None if status < 300 => new(code::TRUNCATED, Some(status)),
                _ => new(reason(status), Some(status)),
            };
            if failed.message.is_empty() { failed.with_message(chain(error)) } else { failed }
        }
        SdkError::TimeoutError(_) => new(code::TIMED_OUT, None).with_message("no answer in time"),
        SdkError::DispatchFailure(_) | SdkError::ConstructionFailure(_) => {
            let text = chain(error);
            let unsigned = sources(error).any(<dyn Error>::is::<CredentialsError>);
            if unsigned {
                new(code::NO_CREDENTIALS, None).with_message(without_output(&text))
            } else if let SdkError::DispatchFailure(dispatch) = error {
                let code = dispatch.as_connector_error().map_or(code::CONNECTION_FAILED, transport_code);
                new(code, None).with_message(text)
            } else {
                new("InvalidRequest", None).with_message(text)
            }
        }
        _ => new(code::MALFORMED, None).with_message(chain(error)),
    }
}

/// Error for a complete success that cannot be parsed.
fn unreadable(
    operation: &str,
    body: Option<&[u8]>,
    new: &impl Fn(&str, Option<u16>) -> StoreError,
    status: u16,
) -> StoreError {
    match body.and_then(|body| other_answer(operation, body)) {
        Some(how) => new(code::UNEXPECTED_ANSWER, Some(status)).with_message(how),
        None => new(code::MALFORMED, Some(status)).with_message(form_of(body.unwrap_or_default())),
    }
}

/// Returns the form of what came in place of an answer of S3, where that is known.
fn form_of(body: &[u8]) -> &'static str {
    let start = body.trim_ascii_start();
    let begins = |word: &[u8]| start.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
    if start.is_empty() {
        "the answer is empty"
    } else if begins(b"<html") || begins(b"<!doctype html") {
        "the answer is a page of HTML: a proxy, a portal or a web server answers in place of S3; look at the endpoint"
    } else if !start.starts_with(b"<") {
        "the answer is no XML: another program than S3 answers; look at the endpoint"
    } else {
        ""
    }
}

/// Error for a success without a required field: the service may have done it or not.
pub(super) fn malformed_answer(operation: &'static str, bucket: &str, key: &str, lacks: &str) -> StoreError {
    StoreError::new(operation, bucket, Some(key), code::MALFORMED, Some(200))
        .with_message(format!("the answer has no {lacks}"))
}

/// Code for requests that got no answer.
pub(super) fn transport_code(error: &ConnectorError) -> &'static str {
    if error.is_timeout() {
        code::TIMED_OUT
    } else if sources(error).any(<dyn Error>::is::<UntrustedServer>) {
        code::NOT_TRUSTED
    } else if sources(error).any(is_of_large_head) {
        code::HEAD_TOO_LARGE
    } else {
        code::CONNECTION_FAILED
    }
}

/// True when the head of an answer was too large, for our reader or for hyper's.
fn is_of_large_head(error: &(dyn Error + 'static)) -> bool {
    // An `io::Error` does not list its inner error among its causes.
    let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    held.is_some_and(<dyn Error + Send + Sync>::is::<OversizedHead>)
        || error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse_too_large)
}

/// Code for an answer that names none, by its status.
pub(super) fn reason(status: u16) -> &'static str {
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

/// The right region, from the header or the `<Region>` of the error body.
pub(super) fn region_hint(headers: &Headers, body: &[u8]) -> Option<String> {
    let region = if let Some(region) = headers.get("x-amz-bucket-region") {
        region
    } else {
        let body = std::str::from_utf8(body).ok()?;
        body.split_once("<Region>")?.1.split_once("</Region>")?.0.trim()
    };
    is_region(region).then(|| region.to_owned())
}

/// True when a text can be the name of a region. It becomes part of addresses and signatures, and it may come from any
/// server.
fn is_region(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Wait that `Retry-After` requests, at most 60 s: a service must not block a request indefinitely.
pub(super) fn retry_after(headers: &Headers) -> Option<Duration> {
    let seconds: u64 = headers.get("retry-after")?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.min(60)))
}

/// Message of the credential chain, in one line. It leaves out the output of a `credential_process`, which may hold
/// secrets.
pub(super) fn without_output(text: &str) -> &str {
    let text = text.split("Stderr:").next().unwrap_or_default();
    text.lines().next().unwrap_or_default().trim_end_matches([' ', '.', ':'])
}

/// Joins the causes of an error that only names its place, outermost first, each once.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let text = join_texts(sources(error).skip(1));
    if text.is_empty() { error.to_string() } else { text }
}

/// Joins an error and its causes.
pub(super) fn whole(error: &(dyn Error + 'static)) -> String {
    join_texts(sources(error))
}

fn join_texts<'a>(errors: impl Iterator<Item = &'a (dyn Error + 'static)>) -> String {
    let mut said: Vec<String> = Vec::new();
    for text in errors.map(ToString::to_string) {
        if !text.is_empty() && !said.iter().any(|before| before.contains(&text)) {
            said.push(text);
        }
    }
    said.join(": ")
}
