//! State of the proxy behind one short lock: requests that passed or are passing, and the rules that they meet.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::http::request::Parts;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, Semaphore};

use super::rules::{Action, ProxyRule, RuleState};
use crate::classify::RequestInfo;

/// Ended requests that the log keeps; older ones free space. The number is far above what a test sends, and keeps a
/// bench from filling the memory.
const LOG_CAPACITY: usize = 1_000_000;

/// One request, as the proxy saw it. Times are seconds since the epoch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Order of ending, from 1; 0 while the request is in flight.
    pub number: u64,
    /// Operation, as S3 names it.
    pub operation: String,
    /// HTTP method.
    pub method: String,
    /// Path and query exactly as sent.
    pub path: String,
    /// Bucket, decoded.
    pub bucket: Option<String>,
    /// Key, decoded.
    pub key: Option<String>,
    /// Part number of a part request.
    pub part_number: Option<u32>,
    /// Upload id of a multipart request; for `CreateMultipartUpload` the one that the server gave.
    pub upload_id: Option<String>,
    /// `bucket/key` with an optional `?versionId=`, decoded.
    pub copy_source: Option<String>,
    /// The requested byte range, as sent.
    pub range: Option<String>,
    /// The access key that signed.
    pub access_key: Option<String>,
    /// The rule that decided or delayed the request, the last one if several did.
    pub rule: Option<u64>,
    /// The rule that holds the request now.
    pub held_by: Option<u64>,
    /// HTTP status of the server's reply; None when it got no request or did not reply.
    pub upstream_status: Option<u16>,
    /// HTTP status sent to the client; None when its connection was broken instead.
    pub status: Option<u16>,
    /// `Code` of an error in the reply's body, whatever its status.
    pub error_code: Option<String>,
    /// The reply was written to the client to its end.
    pub complete: bool,
    /// The offset of the byte of the request's body that a rule has flipped.
    pub spoiled_at: Option<u64>,
    /// Bytes of the request's body that passed to the server.
    pub request_bytes: u64,
    /// Bytes of the reply's body that passed to the client.
    pub reply_bytes: u64,
    /// Time at which the request's head was complete, in seconds since the epoch.
    pub started: f64,
    /// Time at which the reply was fully written or the request abandoned; None while in flight.
    pub ended: Option<f64>,
    /// Reason why the client got no whole reply, when the proxy knows it.
    pub failure: Option<String>,
}

impl RequestRecord {
    /// The client received the whole reply, and it reports success.
    pub fn succeeded(&self) -> bool {
        self.complete && self.error_code.is_none() && self.status.is_some_and(|status| (200..300).contains(&status))
    }

    /// The server carried the operation out, whatever the client heard of it.
    pub fn took_effect(&self) -> bool {
        self.upstream_status.is_some_and(|status| (200..300).contains(&status))
    }
}

/// Counters of one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationStats {
    /// Requests that came in.
    pub requests: u64,
    /// Requests that ended with [`RequestRecord::succeeded`].
    pub succeeded: u64,
    /// Requests that ended otherwise.
    pub failed: u64,
    /// Requests under way.
    pub in_flight: u64,
    /// The most that were in flight concurrently.
    pub peak_in_flight: u64,
}

/// Counters of one rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleStats {
    /// Id given by [`super::Proxy::add_rule`].
    pub id: u64,
    /// Requests that fitted it.
    pub matched: u64,
    /// Requests that it touched.
    pub fired: u64,
    /// Requests that it holds now.
    pub held: u64,
}

/// All counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyStats {
    /// Counters by operation.
    pub operations: BTreeMap<String, OperationStats>,
    /// Counters by rule, in the order in which the rules are checked.
    pub rules: Vec<RuleStats>,
    /// Requests under way.
    pub in_flight: u64,
    /// The most that were in flight concurrently.
    pub peak_in_flight: u64,
    /// Requests that ended.
    pub ended: u64,
    /// Ended requests that the log no longer holds.
    pub forgotten: u64,
}

/// Condition for which [`Journal::wait`] waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "until", rename_all = "snake_case", deny_unknown_fields)]
pub enum Condition {
    /// A rule, or all rules together, hold at least `count` requests.
    Held {
        /// Id of the rule; None for all rules together.
        #[serde(default)]
        rule: Option<u64>,
        /// Least number of requests held at the same time.
        count: u64,
    },
    /// A rule has touched at least `count` requests.
    Fired {
        /// Id of the rule.
        rule: u64,
        /// Least number of requests touched.
        count: u64,
    },
    /// The proxy has received at least `count` requests of an operation.
    Requested {
        /// Operation, as S3 names it.
        operation: String,
        /// Least number of requests received.
        count: u64,
    },
    /// At least `count` requests of an operation have succeeded.
    Succeeded {
        /// Operation, as S3 names it.
        operation: String,
        /// Least number of requests that succeeded.
        count: u64,
    },
    /// No request is in flight.
    Idle,
}

/// State of a proxy. Every method locks for a short time and never across an await.
#[derive(Debug, Default)]
pub(super) struct Journal {
    inner: Mutex<JournalState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct JournalState {
    rules: Vec<(RuleState, Arc<Semaphore>)>,
    last_rule: u64,
    last_ticket: u64,
    in_flight: BTreeMap<u64, RequestRecord>,
    log: VecDeque<RequestRecord>,
    ended: u64,
    operations: BTreeMap<String, OperationStats>,
    peak_in_flight: u64,
}

/// One action to take on a request, by which rule.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) rule: u64,
    pub(super) action: Action,
    /// Semaphore on which requests held by the rule wait.
    pub(super) permits: Arc<Semaphore>,
}

impl Journal {
    fn lock(&self) -> MutexGuard<'_, JournalState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request and checks the rules; the ticket's end is the request's end.
    pub(super) fn begin(self: &Arc<Self>, parts: &Parts, call: RequestInfo) -> (Ticket, Vec<Order>) {
        let mut inner = self.lock();
        let mut orders = Vec::new();
        for (state, permits) in &mut inner.rules {
            if state.fires_on(&call) {
                orders.push(Order { rule: state.id, action: state.rule.action.clone(), permits: Arc::clone(permits) });
                if !state.rule.action.passes_on() {
                    break;
                }
            }
        }
        let record = RequestRecord {
            operation: call.operation.to_owned(),
            method: parts.method.to_string(),
            path: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            bucket: call.bucket,
            key: call.key,
            part_number: call.part_number,
            upload_id: call.upload_id,
            copy_source: call.copy_source,
            range: call.range,
            access_key: call.access_key,
            rule: orders.last().map(|order| order.rule),
            started: now(),
            ..RequestRecord::default()
        };
        inner.last_ticket += 1;
        let id = inner.last_ticket;
        inner.in_flight.insert(id, record.clone());
        inner.peak_in_flight = inner.peak_in_flight.max(inner.in_flight.len() as u64);
        let operation = inner.operations.entry(record.operation.clone()).or_default();
        operation.requests += 1;
        operation.in_flight += 1;
        operation.peak_in_flight = operation.peak_in_flight.max(operation.in_flight);
        drop(inner);
        self.changed.notify_waiters();
        (Ticket { journal: Arc::clone(self), id, record, request_bytes: Arc::default() }, orders)
    }

    fn finish(&self, id: u64, mut record: RequestRecord) {
        let mut inner = self.lock();
        inner.in_flight.remove(&id);
        inner.ended += 1;
        record.number = inner.ended;
        record.held_by = None;
        record.ended = Some(now());
        let operation = inner.operations.entry(record.operation.clone()).or_default();
        // A request that was under way when the log was cleared is not counted in the new one.
        operation.in_flight = operation.in_flight.saturating_sub(1);
        if record.succeeded() {
            operation.succeeded += 1;
        } else {
            operation.failed += 1;
        }
        if inner.log.len() == LOG_CAPACITY {
            inner.log.pop_front();
        }
        inner.log.push_back(record);
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Marks a request as held by a rule, or as continuing.
    pub(super) fn hold(&self, ticket: &Ticket, rule: Option<u64>) {
        if let Some(record) = self.lock().in_flight.get_mut(&ticket.id) {
            record.held_by = rule;
        }
        self.changed.notify_waiters();
    }

    pub(super) fn add_rule(&self, rule: ProxyRule) -> Result<u64, String> {
        if let Some(problem) = rule.problem() {
            return Err(problem);
        }
        let mut inner = self.lock();
        inner.last_rule += 1;
        let id = inner.last_rule;
        inner.rules.push((RuleState::new(id, rule), Arc::new(Semaphore::new(0))));
        Ok(id)
    }

    /// Removes a rule, or all of them; held requests continue. Returns the number of removed rules.
    pub(super) fn remove_rules(&self, id: Option<u64>) -> usize {
        let mut inner = self.lock();
        let removed: Vec<_> = inner.rules.extract_if(.., |(state, _)| id.is_none_or(|id| id == state.id)).collect();
        for (_, permits) in &removed {
            permits.close();
        }
        removed.len()
    }

    /// Lets held requests continue, those held first going first; returns how many.
    pub(super) fn release(&self, rule: Option<u64>, count: Option<u64>) -> u64 {
        let inner = self.lock();
        let mut left = count.unwrap_or(u64::MAX);
        let mut released = 0;
        for (state, permits) in inner.rules.iter().filter(|(state, _)| rule.is_none_or(|rule| rule == state.id)) {
            let held = inner.in_flight.values().filter(|record| record.held_by == Some(state.id)).count() as u64;
            let going = held.min(left);
            permits.add_permits(usize::try_from(going).unwrap_or(0));
            left -= going;
            released += going;
        }
        released
    }

    /// Ended requests whose number is above `after`, oldest first, at most `limit`.
    pub(super) fn log(&self, after: u64, limit: usize) -> Vec<RequestRecord> {
        let inner = self.lock();
        let first = inner.ended - inner.log.len() as u64;
        let skip = usize::try_from(after.saturating_sub(first)).unwrap_or(usize::MAX);
        inner.log.iter().skip(skip).take(limit).cloned().collect()
    }

    pub(super) fn in_flight(&self) -> Vec<RequestRecord> {
        self.lock().in_flight.values().cloned().collect()
    }

    pub(super) fn stats(&self) -> ProxyStats {
        let inner = self.lock();
        let held = |id| inner.in_flight.values().filter(|record| record.held_by == Some(id)).count() as u64;
        ProxyStats {
            operations: inner.operations.clone(),
            rules: inner
                .rules
                .iter()
                .map(|(state, _)| RuleStats {
                    id: state.id,
                    matched: state.matched,
                    fired: state.fired,
                    held: held(state.id),
                })
                .collect(),
            in_flight: inner.in_flight.len() as u64,
            peak_in_flight: inner.peak_in_flight,
            ended: inner.ended,
            forgotten: inner.ended - inner.log.len() as u64,
        }
    }

    /// Forgets what ended and starts all counters again; numbers of records continue.
    pub(super) fn clear_log(&self) {
        let mut inner = self.lock();
        inner.log.clear();
        inner.operations.clear();
        inner.peak_in_flight = inner.in_flight.len() as u64;
        let running: Vec<String> = inner.in_flight.values().map(|record| record.operation.clone()).collect();
        for operation in running {
            inner.operations.entry(operation).or_default().in_flight += 1;
        }
    }

    /// Returns when the condition holds; the caller sets the deadline.
    pub(super) async fn wait(&self, condition: &Condition) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.holds(condition) {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn holds(&self, condition: &Condition) -> bool {
        let stats = self.stats();
        let operation = |name: &str| stats.operations.get(name).cloned().unwrap_or_default();
        let rules = |wanted: Option<u64>| {
            stats.rules.iter().filter(move |rule| wanted.is_none_or(|wanted| wanted == rule.id)).cloned()
        };
        match condition {
            Condition::Held { rule, count } => rules(*rule).map(|rule| rule.held).sum::<u64>() >= *count,
            Condition::Fired { rule, count } => rules(Some(*rule)).map(|rule| rule.fired).sum::<u64>() >= *count,
            Condition::Requested { operation: name, count } => operation(name).requests >= *count,
            Condition::Succeeded { operation: name, count } => operation(name).succeeded >= *count,
            Condition::Idle => stats.in_flight == 0,
        }
    }
}

/// A request's place in the journal. Dropping it, on whatever path, ends the request.
#[derive(Debug)]
pub(super) struct Ticket {
    journal: Arc<Journal>,
    id: u64,
    pub(super) record: RequestRecord,
    /// Counted by the body on its way to the server.
    pub(super) request_bytes: Arc<AtomicU64>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.record.request_bytes = self.request_bytes.load(Ordering::Relaxed);
        self.journal.finish(self.id, std::mem::take(&mut self.record));
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
