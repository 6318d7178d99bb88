//! The proxy's own paths, for tests in other languages: JSON over HTTP under `/__proxy/`, a name no bucket can have.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `GET log?after=N&limit=M` | | ended requests numbered above N, oldest first |
//! | `DELETE log` | | forgets them, counters start again |
//! | `GET in-flight` | | requests under way |
//! | `GET stats` | | counters |
//! | `POST rules` | one rule or a list | `{"ids": [...]}` |
//! | `DELETE rules`, `DELETE rules/ID` | | `{"removed": n}`; requests that they hold continue |
//! | `POST release` | `{"rule": id or null, "count": n or null}` | `{"released": n}` |
//! | `POST wait` | a condition and `"timeout_ms"` | `{"met": true or false}` |

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::body::ReplyBody;
use super::journal::{Condition, Journal};
use super::rules::ProxyRule;

pub(super) const PREFIX: &str = "/__proxy/";

const LARGEST_BODY: usize = 1024 * 1024;
const LOG_PAGE: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    #[serde(default)]
    rule: Option<u64>,
    #[serde(default)]
    count: Option<u64>,
}

struct Refusal(StatusCode, String);

impl From<serde_json::Error> for Refusal {
    fn from(error: serde_json::Error) -> Self {
        Self(StatusCode::BAD_REQUEST, error.to_string())
    }
}

/// Answers a request under [`PREFIX`].
pub(super) async fn answer(journal: &Arc<Journal>, request: Request<Incoming>) -> Response<ReplyBody> {
    let (status, value) = match dispatch(journal, request).await {
        Ok(value) => (StatusCode::OK, value),
        Err(Refusal(status, error)) => (status, json!({ "error": error })),
    };
    let mut reply = Response::new(ReplyBody::unrecorded(Bytes::from(value.to_string())));
    *reply.status_mut() = status;
    reply.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
    reply
}

async fn dispatch(journal: &Arc<Journal>, request: Request<Incoming>) -> Result<Value, Refusal> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, LARGEST_BODY)
        .collect()
        .await
        .map_err(|error| Refusal(StatusCode::BAD_REQUEST, error.to_string()))?
        .to_bytes();
    let number = |name: &str| {
        let mut pairs = parts.uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(known, _)| *known == name).and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default();
    match (&parts.method, path) {
        (&Method::GET, "log") => {
            let limit = number("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(LOG_PAGE).min(LOG_PAGE);
            to_value(&journal.log(number("after").unwrap_or(0), limit))
        }
        (&Method::DELETE, "log") => {
            journal.clear_log();
            Ok(json!({}))
        }
        (&Method::GET, "in-flight") => to_value(&journal.in_flight()),
        (&Method::GET, "stats") => to_value(&journal.stats()),
        (&Method::POST, "rules") => {
            let value: Value = serde_json::from_slice(&body)?;
            // By hand, since an untagged enum would hide what is wrong with a rule.
            let rules: Vec<ProxyRule> =
                if value.is_array() { serde_json::from_value(value)? } else { vec![serde_json::from_value(value)?] };
            let ids: Result<Vec<u64>, String> = rules.into_iter().map(|rule| journal.add_rule(rule)).collect();
            ids.map(|ids| json!({ "ids": ids })).map_err(|problem| Refusal(StatusCode::BAD_REQUEST, problem))
        }
        (&Method::DELETE, "rules") => Ok(json!({ "removed": journal.remove_rules(None) })),
        (&Method::DELETE, path) if path.starts_with("rules/") => {
            let id =
                path["rules/".len()..].parse().map_err(|_| Refusal(StatusCode::BAD_REQUEST, "no such rule".into()))?;
            Ok(json!({ "removed": journal.remove_rules(Some(id)) }))
        }
        (&Method::POST, "release") => {
            let wanted: Release = serde_json::from_slice(&body)?;
            Ok(json!({ "released": journal.release(wanted.rule, wanted.count) }))
        }
        (&Method::POST, "wait") => {
            let mut value: Value = serde_json::from_slice(&body)?;
            let timeout = value.as_object_mut().and_then(|map| map.remove("timeout_ms")).and_then(|ms| ms.as_u64());
            let condition: Condition = serde_json::from_value(value)?;
            let timeout = Duration::from_millis(timeout.unwrap_or(10_000));
            let met = tokio::time::timeout(timeout, journal.wait(&condition)).await.is_ok();
            Ok(json!({ "met": met }))
        }
        _ => Err(Refusal(StatusCode::NOT_FOUND, format!("the proxy knows no {} {path}", parts.method))),
    }
}

fn to_value<T: Serialize>(value: &T) -> Result<Value, Refusal> {
    serde_json::to_value(value).map_err(|error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}
