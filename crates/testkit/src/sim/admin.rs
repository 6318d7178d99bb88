//! The simulator's own paths: JSON over HTTP under `/_sim/`, a name no bucket can have.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `GET stats` | | counters, see [`SimStats`](super::SimStats) |
//! | `POST reset` | | counters begin again; objects stay |
//! | `GET faults`, `PUT faults`, `POST faults` | one rule or a list | rules in force; PUT replaces them, POST adds |
//! | `GET check?source=BUCKET/PREFIX&target=BUCKET/PREFIX` | | comparison of all objects below both, byte for byte |
//! | `POST buckets` | a bucket of a scenario | `{}` |
//! | `GET options` | | the model's options and the time scale |

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use super::answer::AnswerBody;
use super::bucket::Position;
use super::context::{ServerContext, model_options};
use super::faults::FaultRule;
use super::scenario::BucketSpec;
use super::state::SimState;
use super::{PrefixComparison, SimStats};
use crate::classify::Query;

pub(super) const PREFIX: &str = "/_sim/";

const LARGEST_BODY: usize = 16 << 20;
/// Keys named in the answer of a check.
const MOST_NAMED: usize = 100;

pub(super) async fn answer(shared: &Arc<ServerContext>, request: Request<Incoming>) -> Response<AnswerBody> {
    let (status, value) = match dispatch(shared, request).await {
        Ok(value) => (StatusCode::OK, value),
        Err((status, error)) => (status, json!({ "error": error })),
    };
    let mut reply = Response::new(AnswerBody::once(Bytes::from(value.to_string()), None));
    *reply.status_mut() = status;
    reply.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
    reply
}

type Refusal = (StatusCode, String);

fn bad(problem: impl std::fmt::Display) -> Refusal {
    (StatusCode::BAD_REQUEST, problem.to_string())
}

fn rules(body: &[u8]) -> Result<Vec<FaultRule>, Refusal> {
    let value: Value = serde_json::from_slice(body).map_err(bad)?;
    // By hand, since an untagged enum would hide what is wrong with a rule.
    let rules: Vec<FaultRule> = if value.is_array() {
        serde_json::from_value(value).map_err(bad)?
    } else {
        vec![serde_json::from_value(value).map_err(bad)?]
    };
    for rule in &rules {
        rule.check().map_err(bad)?;
    }
    Ok(rules)
}

async fn dispatch(shared: &ServerContext, request: Request<Incoming>) -> Result<Value, Refusal> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, LARGEST_BODY).collect().await.map_err(bad)?.to_bytes();
    let query = Query::parse(parts.uri.query());
    let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let to_value = |value| serde_json::to_value(value).map_err(bad);
    match (&parts.method, path) {
        (&Method::GET, "stats") => serde_json::to_value(stats(&shared.state())).map_err(bad),
        (&Method::POST, "reset") => {
            shared.state().counters.reset();
            Ok(json!({}))
        }
        (&Method::GET, "faults") => to_value(&shared.state().faults.rules),
        (&Method::PUT, "faults") => {
            let rules = rules(&body)?;
            let mut state = shared.state();
            state.faults.rules = rules;
            to_value(&state.faults.rules)
        }
        (&Method::POST, "faults") => {
            let rules = rules(&body)?;
            let mut state = shared.state();
            state.faults.rules.extend(rules);
            to_value(&state.faults.rules)
        }
        (&Method::GET, "check") => {
            let wanted =
                |name: &str| query.get(name).ok_or_else(|| bad(format_args!("check wants {name}=BUCKET/PREFIX")));
            let check = check(shared, wanted("source")?, wanted("target")?).map_err(bad)?;
            serde_json::to_value(check).map_err(bad)
        }
        (&Method::POST, "buckets") => {
            let spec: BucketSpec = serde_json::from_slice(&body).map_err(bad)?;
            shared.state().add_bucket(&spec).map_err(bad)?;
            Ok(json!({}))
        }
        (&Method::GET, "options") => {
            let state = shared.state();
            Ok(json!({
                "model": model_options(&state),
                "time_scale": state.options.time_scale,
                "seed": state.options.seed,
            }))
        }
        _ => Err((StatusCode::NOT_FOUND, format!("s3sim knows no {} {path}", parts.method))),
    }
}

pub(super) fn stats(state: &SimState) -> SimStats {
    let counters = &state.counters;
    let operations: std::collections::BTreeMap<String, _> =
        counters.operations.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    SimStats {
        seconds: state.now().as_secs_f64(),
        requests: operations.values().map(|count| count.requests).sum(),
        throttled: operations.values().map(|count| count.throttled).sum(),
        operations,
        in_flight: counters.in_flight,
        peak_in_flight: counters.peak_in_flight,
        faults: state.faults.fired(),
        bytes_received: counters.bytes_received,
        bytes_sent: counters.bytes_sent,
        bytes_copied: counters.bytes_copied,
        wasted: counters.wasted,
        open_uploads: state.uploads.len() as u64,
        kept_bytes: state.kept.load(std::sync::atomic::Ordering::Relaxed),
        written_objects: state.buckets.values().map(super::bucket::Bucket::written).sum(),
        partitions: state
            .buckets
            .keys()
            .map(|name| (name.clone(), state.model.partitions(name).len().max(1)))
            .collect(),
        timeline: counters.timeline(),
    }
}

fn place(text: &str) -> (&str, &str) {
    text.split_once('/').unwrap_or((text, ""))
}

/// Page by page, so that requests continue between.
pub(super) fn check(shared: &ServerContext, source: &str, target: &str) -> Result<PrefixComparison, String> {
    let ((from, from_prefix), (to, to_prefix)) = (place(source), place(target));
    let mut check = PrefixComparison::default();
    let mut after: Option<Position> = None;
    let name = |names: &mut Vec<String>, key: &str| {
        if names.len() < MOST_NAMED {
            names.push(key.to_owned());
        }
    };
    loop {
        let mut state = shared.state();
        let there = |name: &str, state: &SimState| {
            state.buckets.contains_key(name).then_some(()).ok_or_else(|| format!("there is no bucket {name}"))
        };
        there(from, &state)?;
        there(to, &state)?;
        let page = match state.buckets.get_mut(from) {
            Some(bucket) => bucket.list(from_prefix, None, after.as_ref(), 1_000),
            None => return Ok(check),
        };
        for listed in &page.objects {
            check.objects += 1;
            check.bytes += listed.size;
            let key = format!("{to_prefix}{}", &listed.key[from_prefix.len()..]);
            let original = state.buckets.get_mut(from).and_then(|bucket| bucket.get(&listed.key));
            let copied = state.buckets.get_mut(to).and_then(|bucket| bucket.get(&key));
            match (original, copied) {
                (Some(original), Some(copied)) if original.content.equals(&copied.content) => check.same += 1,
                (_, Some(_)) => {
                    check.different_count += 1;
                    name(&mut check.different, &key);
                }
                (_, None) => {
                    check.missing_count += 1;
                    name(&mut check.missing, &key);
                }
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(check),
        }
    }
}
