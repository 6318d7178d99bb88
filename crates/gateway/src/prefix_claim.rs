//! The claim on the prefix of a share: an object at its top that names the one gateway that writes below it.
//!
//! - A claim is an object, and no lease: it is not renewed, so that no clock counts and a bucket with versions gets no
//!   version of it a minute. It belongs to a cache: the same cache finds its own claim again after a kill. It is
//!   removed when the process ends and the bucket has everything.
//! - It is created on condition that nothing is there, and replaced on condition that it is what was read. A write
//!   counts once it was read back: some services silently ignore conditions. The last writer wins there, and the other
//!   one sees that at its next check.
//! - Claims on the prefixes above hold for this one as well. Those below are not looked for, which would mean to list
//!   everything: the gateway below sees the one above, and stops its uploads.
//! - Files are uploaded while the claim was seen within [`CHECK_VALIDITY`]. It is checked every [`CHECK_INTERVAL`],
//!   before the first upload after an outage, and after a conflict or a flush. A gateway that finds another one's claim
//!   keeps what waits, and continues when that claim is gone.
//!
//! Requests: one GET for each level of the prefix at each check.

mod object;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seqferry_client::{RequestError, RetryingClient};
use seqferry_store::crash_point::{self, When};
use seqferry_store::{ErrorClass, ObjectUri, StoreError, WriteOptions};
use seqferry_transfer::remove::remove;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use object::{ClaimRecord, FORMAT, StoredClaim};

/// Name of the object at the top of a prefix.
pub(crate) const CLAIM: &str = ".seqferry-share";
/// Interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_mins(1);
/// Time after a look for which files may be uploaded: a look that is late by its retries stops nothing.
const CHECK_VALIDITY: Duration = Duration::from_secs(90);
/// Interval between checks while the bucket does not answer.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// Looks and writes until a claim is abandoned that others change all the time.
const MAX_ROUNDS: usize = 4;
/// Characters of a word of another one's claim that are shown: a bucket and a prefix.
const MAX_SHOWN_CHARS: usize = 1100;
/// Longest wait for the bucket when the process ends.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// The prefix of a share, and the gateway that asks for it.
#[derive(Debug, Clone)]
pub(crate) struct ClaimSpec {
    /// Client of the bucket, with few retries.
    pub(crate) client: RetryingClient,
    pub(crate) bucket: String,
    /// Empty, or ends in a slash.
    pub(crate) prefix: String,
    /// Encryption and access of the object.
    pub(crate) write: WriteOptions,
    /// Id of the cache.
    pub(crate) cache: String,
    /// Name of the share.
    pub(crate) share: String,
    /// Replace another cache's claim, once.
    pub(crate) take_over: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct PrefixClaim {
    spec: ClaimSpec,
    host: String,
    state: Mutex<State>,
    /// One look at a time.
    check_lock: tokio::sync::Mutex<()>,
    wake: Notify,
    was_held: AtomicBool,
    /// This process has put a claim where none was.
    is_new: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Begin of the last check that found the claim held.
    confirmed: Option<Instant>,
    /// End of the last check.
    last_check: Option<Instant>,
    /// Reason of the last check that failed.
    failure: Option<String>,
    /// The line about another cache's claim.
    refusal: Option<String>,
}

/// Cause for which a prefix is not claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimError {
    /// Another gateway has claimed it: the line about that claim.
    Taken(String),
    /// The bucket refuses the look or the claim. The same cache claims it before its first upload.
    Failed(String),
}

impl ClaimError {
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Taken(text) | Self::Failed(text) => text,
        }
    }
}

/// Result of a check.
enum ClaimStatus {
    Held,
    Refused(String),
}

impl PrefixClaim {
    pub(crate) fn new(spec: ClaimSpec) -> Self {
        let host = host_name();
        Self {
            spec,
            host,
            state: Mutex::default(),
            check_lock: tokio::sync::Mutex::default(),
            wake: Notify::new(),
            was_held: AtomicBool::new(false),
            is_new: AtomicBool::new(false),
        }
    }

    /// Refuse a prefix that another cache has claimed. Changes nothing. An endpoint that does not answer is no refusal.
    ///
    /// # Errors
    /// Another claim, or the reason why the bucket refuses the look.
    pub(crate) async fn check(&self) -> Result<(), ClaimError> {
        if self.spec.take_over {
            return Ok(());
        }
        match self.read_all().await {
            Ok(seen) => self.first_foreign(&seen).map_or(Ok(()), |claim| Err(ClaimError::Taken(self.line(claim)))),
            Err(RequestError::Failed(error)) if is_outage(&error) => Ok(()),
            Err(error) => Err(ClaimError::Failed(words(error))),
        }
    }

    /// Claim the prefix. Where the endpoint does not answer it is claimed before the first upload.
    ///
    /// # Errors
    /// Another claim, or the reason why the bucket refuses.
    pub(crate) async fn acquire(&self) -> Result<(), ClaimError> {
        let began = Instant::now();
        let standing = self.try_claim().await;
        let outage = matches!(&standing, Err(RequestError::Failed(error)) if is_outage(error));
        self.record_result(began, standing);
        let state = self.lock();
        match (&state.refusal, &state.failure) {
            (Some(line), _) => Err(ClaimError::Taken(line.clone())),
            (None, Some(line)) if !outage => Err(ClaimError::Failed(line.clone())),
            (None, _) => Ok(()),
        }
    }

    /// Look at the claim from time to time, until `stop`.
    pub(crate) async fn keep(&self, stop: CancellationToken) {
        loop {
            let pause = if self.lock().failure.is_some() { RETRY_PAUSE } else { CHECK_INTERVAL };
            let next = self.lock().last_check.map_or_else(Instant::now, |last_check| last_check + pause);
            let wait = async {
                tokio::select! {
                    () = tokio::time::sleep_until(next) => {}
                    () = self.wake.notified() => {}
                }
            };
            // A look comes to its end: what it has written must not arrive after the claim was abandoned.
            if stop.run_until_cancelled(wait).await.is_none() {
                return;
            }
            let _one = self.check_lock.lock().await;
            // A look that was requested may have been made by an upload.
            if self.lock().last_check.is_none_or(|last_check| last_check.elapsed() >= pause) {
                self.check_once().await;
            }
        }
    }

    /// Believe no look before: the bucket has refused a condition, or a person wants to know.
    pub(crate) fn invalidate(&self) {
        let mut state = self.lock();
        (state.confirmed, state.last_check) = (None, None);
        drop(state);
        self.wake.notify_one();
    }

    /// Wait until the claim is known to be held or not.
    ///
    /// # Errors
    /// The line about another claim, or the reason why the bucket cannot be asked.
    pub(crate) async fn confirm(&self) -> Result<(), String> {
        if let Some(last_result) = self.last_result() {
            return last_result;
        }
        let _one = self.check_lock.lock().await;
        // Another one may have looked meanwhile.
        if let Some(last_result) = self.last_result() {
            return last_result;
        }
        self.check_once().await;
        self.last_result().unwrap_or(Ok(()))
    }

    /// The line about another claim, while it stands against this one.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.lock().refusal.clone()
    }

    /// Remove what is claimed. The claim stays where the bucket does not answer in time: the same cache finds it.
    pub(crate) async fn release(&self) {
        if self.was_held.load(Ordering::Acquire) {
            self.remove().await;
        }
    }

    /// Remove what this process has claimed, before it has served anything. A claim that its cache held before stays.
    pub(crate) async fn withdraw(&self) {
        if self.is_new.load(Ordering::Acquire) {
            self.remove().await;
        }
    }

    async fn remove(&self) {
        let removed = async {
            let seen = self.read_all().await?;
            let ours = seen.into_iter().filter(|claim| self.is_ours(claim));
            let ours: Vec<_> = ours.map(|claim| (claim.key, Some(claim.etag))).collect();
            crash_point::reach(When::Before, "claim-removed");
            remove(&self.spec.client, &self.spec.bucket, ours).await?;
            crash_point::reach(When::After, "claim-removed");
            Ok(())
        };
        let why = match tokio::time::timeout(RELEASE_TIMEOUT, removed).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => words(error),
            Err(_) => "the endpoint does not answer".to_owned(),
        };
        tracing::warn!(
            "{}: the claim of this gateway stays ({why}). A gateway with the same cache goes on with it; one with another \
             cache needs --take-over",
            self.address(&self.key())
        );
    }

    /// The outcome of the last check, while it holds.
    fn last_result(&self) -> Option<Result<(), String>> {
        let state = self.lock();
        let is_within = |time: Option<Instant>, limit| time.is_some_and(|time| time.elapsed() < limit);
        if let Some(refusal) = &state.refusal {
            return is_within(state.last_check, CHECK_INTERVAL + RETRY_PAUSE).then(|| Err(refusal.clone()));
        }
        if is_within(state.confirmed, CHECK_VALIDITY) {
            return Some(Ok(()));
        }
        state.failure.clone().filter(|_| is_within(state.last_check, RETRY_PAUSE)).map(Err)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn check_once(&self) {
        let began = Instant::now();
        let standing = self.try_claim().await;
        self.record_result(began, standing);
    }

    fn record_result(&self, began: Instant, standing: Result<ClaimStatus, RequestError>) {
        let mut state = self.lock();
        state.last_check = Some(Instant::now());
        state.failure = None;
        match standing {
            Ok(ClaimStatus::Held) => {
                self.was_held.store(true, Ordering::Release);
                state.confirmed = Some(began);
                if state.refusal.take().is_some() {
                    tracing::warn!("{}: no other gateway writes there any more: uploads go on", self.address(""));
                }
            }
            Ok(ClaimStatus::Refused(line)) => {
                if state.refusal.as_ref() != Some(&line) {
                    tracing::warn!(
                        "uploads of the share {} have stopped, and what waits is kept: {line}",
                        self.spec.share
                    );
                }
                (state.confirmed, state.refusal) = (None, Some(line));
            }
            // The last result holds until it expires.
            Err(error) => {
                state.failure =
                    Some(format!("the claim {} cannot be had: {}", self.address(&self.key()), words(error)));
            }
        }
    }

    /// Look, and claim what is free, or what may be taken over.
    async fn try_claim(&self) -> Result<ClaimStatus, RequestError> {
        let mut last = None;
        for _ in 0..MAX_ROUNDS {
            let seen = self.read_all().await?;
            let takes_over = self.spec.take_over && !self.was_held.load(Ordering::Acquire);
            if let Some(foreign) = self.first_foreign(&seen) {
                let line = self.line(foreign);
                if !takes_over {
                    return Ok(ClaimStatus::Refused(line));
                }
                last = Some(line);
            }
            // A cache that was moved says where it is.
            let replaced = seen.iter().find(|claim| !self.is_ours(claim));
            let (key, etag) = match replaced {
                Some(claim) => (claim.key.clone(), Some(claim.etag.clone())),
                None if seen.iter().any(|claim| claim.key == self.key()) => return Ok(ClaimStatus::Held),
                None => (self.key(), None),
            };
            crash_point::reach(When::Before, "claim-made");
            let is_new = etag.is_none();
            match self.write(&key, etag).await {
                Ok(()) => drop(self.is_new.fetch_or(is_new, Ordering::AcqRel)),
                // Another gateway was faster, or the answer to an attempt before was lost.
                Err(RequestError::Failed(error))
                    if matches!(error.class, ErrorClass::Precondition | ErrorClass::NotFound) => {}
                Err(error) => return Err(error),
            }
            crash_point::reach(When::After, "claim-made");
        }
        let line = last.unwrap_or_else(|| format!("others write the claim {} all the time", self.address(&self.key())));
        Ok(ClaimStatus::Refused(line))
    }

    /// The first claim of another cache. While this one is held, a copy of the cache on another machine is another one.
    fn first_foreign<'a>(&self, seen: &'a [StoredClaim]) -> Option<&'a StoredClaim> {
        let was_held = self.was_held.load(Ordering::Acquire);
        let is_own = |record: &ClaimRecord| record.cache == self.spec.cache && (!was_held || record.host == self.host);
        seen.iter().find(|claim| !claim.record.as_ref().is_some_and(is_own))
    }

    /// True for a claim of this cache on this machine.
    fn is_ours(&self, claim: &StoredClaim) -> bool {
        claim.record.as_ref().is_some_and(|record| record.cache == self.spec.cache && record.host == self.host)
    }

    fn key(&self) -> String {
        format!("{}{CLAIM}", self.spec.prefix)
    }

    /// Keys of the claims that hold for the prefix, from the top down.
    fn keys(&self) -> Vec<String> {
        let prefix = &self.spec.prefix;
        let above = prefix.match_indices('/').map(|(at, _)| &prefix[..=at]);
        std::iter::once("").chain(above).map(|prefix| format!("{prefix}{CLAIM}")).collect()
    }

    fn address(&self, key: &str) -> String {
        let key = if key.is_empty() { &self.spec.prefix } else { key };
        ObjectUri(&self.spec.bucket, Some(key)).to_string()
    }

    /// The line about another claim.
    fn line(&self, claim: &StoredClaim) -> String {
        let there = self.address(&claim.key);
        let next = "stop its uploads and write in its place with --take-over";
        match &claim.record {
            Some(record) if record.format == FORMAT => format!(
                "the gateway on {} writes to {} (share {}, since {}; {there}): end it with seqferry gateway drain, or by \
                 unmounting, or {next}",
                shown(&record.host),
                shown(&record.source),
                shown(&record.share),
                shown(&record.since)
            ),
            Some(_) | None => format!(
                "{there} is a claim of another version of this program, or another file: inspect it, then remove it, or \
                 {next}"
            ),
        }
    }
}

/// Name of this machine, for people, and to tell a cache that was moved. Systems without `/proc` have one name.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "an unknown machine".to_owned() } else { name.to_owned() }
}

/// A word of a claim, which another program has written, for a terminal.
fn shown(word: &str) -> String {
    word.chars().filter(|one| !one.is_control()).take(MAX_SHOWN_CHARS).collect()
}

/// True when the endpoint may answer later.
fn is_outage(error: &StoreError) -> bool {
    matches!(error.class, ErrorClass::Retry | ErrorClass::Throttle)
}

/// The cause and the next step.
fn words(error: RequestError) -> String {
    match error {
        RequestError::Failed(error) => format!("{error}. {}", error.advice()),
        RequestError::Cancelled => "the request was cancelled".to_owned(),
    }
}

#[cfg(test)]
mod tests;
