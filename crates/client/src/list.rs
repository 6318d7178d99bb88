//! Listing in parallel, complete whatever order the service lists in.
//!
//! **Runs.** The listing is cut into runs, each a sequential walk over pages by continuation. A run begins after some
//! key and walks until it meets the first key of another run (or the end). So the runs are links of the service's own
//! chain of keys: wherever one stops, the next has begun at exactly that key. Nothing here compares keys to decide
//! where a run ends, so completeness does not depend on a sorted order. On a service with another order, a run may
//! continue longer than needed and list some keys twice. Receivers take keys as a set.
//!
//! **Where to begin runs.** First at the common prefixes of the delimiter `/` (going down while there is only one),
//! which follows how people lay out data. Then, while there is space for more runs, the longest remaining range of keys
//! is halved: a run begins after a key in its middle.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use seqferry_store::{ListRequest, ListedObject, StoreError};
use tokio::sync::mpsc;
use tracing::field::Empty;
use tracing::{Instrument as _, debug_span};

use crate::client::RetryingClient;
use crate::pages::LoopGuard;
use crate::request::RequestError;

/// Pages that wait for the receiver.
const PAGES: usize = 16;
/// Levels of lone common prefixes to go down.
const DEPTH: usize = 8;

/// Runs at a time: more find no more pages in practice.
const RUNS: usize = 16;

/// Scope of a listing: bucket, prefix and limits.
#[derive(Debug, Clone)]
pub struct ListingScope {
    /// Bucket name.
    pub bucket: String,
    /// Prefix of the keys that are listed.
    pub prefix: String,
    /// Most runs at a time.
    pub parallel: usize,
    /// Approximate number of objects after which the listing stops. None: no limit.
    pub limit: Option<usize>,
    /// The transfer that it is made for, for traces. Empty: none.
    pub transfer: String,
}

impl ListingScope {
    /// Everything below a prefix.
    pub fn new(bucket: &str, prefix: &str) -> Self {
        Self {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            parallel: RUNS,
            limit: None,
            transfer: String::new(),
        }
    }
}

/// A page, or why there are no more.
pub type Page = Result<Vec<ListedObject>, RequestError>;

/// List on the current runtime. The channel ends after the last page; an error is the last thing in it. Dropping the
/// receiver stops the listing.
pub fn list(requests: RetryingClient, listing: ListingScope) -> mpsc::Receiver<Page> {
    let (pages, receiver) = mpsc::channel(PAGES);
    let (bucket, prefix) = (listing.bucket.as_str(), listing.prefix.as_str());
    let transfer = listing.transfer.as_str();
    let span = debug_span!("listing", transfer, bucket, prefix, found = Empty, code = Empty);
    let walk = RunListing {
        requests: requests.within(&listing.prefix),
        listing,
        pages,
        found: AtomicUsize::new(0),
        runs: Mutex::default(),
    };
    tokio::spawn(async move {
        let walk = Arc::new(walk);
        // In a task of its own: were it to panic, what has come must not pass for all there is.
        let all = tokio::spawn(Arc::clone(&walk).all().instrument(span.clone()));
        let ended = all.await.unwrap_or_else(|_| Err(walk.panic_error()));
        span.record("found", walk.found.load(Ordering::Relaxed));
        if let Err(interrupted) = ended {
            if let RequestError::Failed(error) = &interrupted {
                span.record("code", error.code.as_str());
            }
            // A receiver that has gone wants no reason.
            let _gone = walk.pages.send(Err(interrupted)).await;
        }
    });
    receiver
}

struct RunListing {
    requests: RetryingClient,
    listing: ListingScope,
    pages: mpsc::Sender<Page>,
    found: AtomicUsize,
    runs: Mutex<Runs>,
}

/// Result of one page: the number of its run and the state of that run.
type PageResult = Result<(usize, RunState), RequestError>;

/// State of a run after a page.
enum RunState {
    /// The run continues with this token.
    More(String),
    /// The run met another run or the end of the listing.
    Met,
}

#[derive(Default)]
struct Runs {
    /// Number of each run, by the first key that it found.
    begins: HashMap<String, usize>,
    /// Last key that each run found; None before its first page or after its end.
    last: Vec<Option<String>>,
    /// Guard of each run.
    guards: HashMap<usize, LoopGuard>,
    /// Keys in the middle of a range after which a run was started; each is used once.
    middles: Vec<String>,
}

impl RunListing {
    fn panic_error(&self) -> RequestError {
        let error = StoreError::new("ListObjectsV2", &self.listing.bucket, None, "Panicked", None);
        error.with_message("the listing has failed by a fault of its own").into()
    }

    fn request(&self) -> ListRequest {
        ListRequest {
            bucket: self.listing.bucket.clone(),
            prefix: self.listing.prefix.clone(),
            ..ListRequest::default()
        }
    }

    /// First page of everything, then as many runs as are allowed.
    async fn all(self: Arc<Self>) -> Result<(), RequestError> {
        let first = self.requests.list_page(&self.request()).await?;
        let more = first.continuation.clone();
        {
            let mut runs = self.lock();
            runs.last.push(first.objects.last().map(|object| object.key.clone()));
            if let Some(object) = first.objects.first() {
                runs.begins.insert(object.key.clone(), 0);
            }
        }
        if !self.hand_over(first.objects).await {
            return Ok(());
        }
        let Some(token) = more else { return Ok(()) };
        let mut tasks: tokio::task::JoinSet<PageResult> = tokio::task::JoinSet::new();
        tasks.spawn(Arc::clone(&self).step(0, Some(token), None).in_current_span());
        let mut seeds: VecDeque<String> = if self.listing.parallel > 1 && self.listing.limit.is_none() {
            self.seeds().await?.into()
        } else {
            VecDeque::new()
        };
        loop {
            while tasks.len() < self.listing.parallel {
                let Some(after) = seeds.pop_front().or_else(|| self.middle()) else { break };
                let number = {
                    let mut runs = self.lock();
                    runs.last.push(None);
                    runs.last.len() - 1
                };
                tasks.spawn(Arc::clone(&self).step(number, None, Some(after)).in_current_span());
            }
            match tasks.join_next().await {
                None => return Ok(()),
                Some(Ok(Ok((number, RunState::More(token))))) => {
                    if self.pages.is_closed() || self.full() {
                        return Ok(());
                    }
                    tasks.spawn(Arc::clone(&self).step(number, Some(token), None).in_current_span());
                }
                Some(Ok(Ok((_, RunState::Met)))) => {}
                Some(Ok(Err(interrupted))) => return Err(interrupted),
                Some(Err(_)) => return Err(self.panic_error()),
            }
        }
    }

    fn full(&self) -> bool {
        self.listing.limit.is_some_and(|limit| self.found.load(Ordering::Relaxed) >= limit)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Common prefixes, evenly chosen, at which runs may begin.
    async fn seeds(&self) -> Result<Vec<String>, RequestError> {
        let mut prefix = self.listing.prefix.clone();
        for _ in 0..DEPTH {
            let request = ListRequest { prefix: prefix.clone(), delimiter: Some("/".to_owned()), ..self.request() };
            let page = self.requests.list_page(&request).await?;
            match page.common_prefixes.as_slice() {
                [only] if page.objects.is_empty() && *only != prefix => prefix.clone_from(only),
                groups => {
                    let wanted = self.listing.parallel.saturating_sub(1).max(1);
                    let step = groups.len().div_ceil(wanted).max(1);
                    // The first group is where run 0 is.
                    return Ok(groups.iter().skip(1).step_by(step).cloned().collect());
                }
            }
        }
        Ok(Vec::new())
    }

    /// A key in the middle of the longest range between a run's last key and the next run's first.
    fn middle(&self) -> Option<String> {
        if self.listing.limit.is_some() {
            return None;
        }
        let mut runs = self.lock();
        let mut firsts: Vec<&String> = runs.begins.keys().collect();
        firsts.sort();
        let mut best: Option<(f64, String)> = None;
        for last in runs.last.iter().flatten() {
            let next = firsts.iter().find(|first| **first > last).map(|first| first.as_str());
            let Some((width, middle)) = between(last, next, &self.listing.prefix) else { continue };
            if runs.middles.contains(&middle) {
                continue;
            }
            if best.as_ref().is_none_or(|(widest, _)| width > *widest) {
                best = Some((width, middle));
            }
        }
        let (_, middle) = best?;
        // Bounds the requests for runs that find no keys of their own.
        if runs.middles.len() >= 64 {
            return None;
        }
        runs.middles.push(middle.clone());
        Some(middle)
    }

    /// Fetch one page of a run and hand its keys over, up to where another run begins.
    async fn step(self: Arc<Self>, number: usize, token: Option<String>, after: Option<String>) -> PageResult {
        let begins = token.is_none();
        let request = ListRequest { continuation: token, start_after: after, ..self.request() };
        let page = self.requests.list_page(&request).await?;
        let mut objects = page.objects;
        let mut next = page.continuation.map_or(RunState::Met, RunState::More);
        {
            let mut runs = self.lock();
            let last = objects.last().map(|object| object.key.as_str());
            runs.guards.entry(number).or_default().check_page(&self.listing.bucket, last)?;
            if begins {
                let Some(first) = objects.first().map(|object| object.key.clone()) else {
                    return Ok((number, RunState::Met));
                };
                // The run before this key may have listed it already: this run would repeat its keys.
                let owner = runs.begins.iter().filter(|(begin, _)| **begin <= first).max_by(|a, b| a.0.cmp(b.0));
                let passed = owner.is_some_and(|(_, &run)| runs.last[run].as_ref().is_none_or(|last| *last >= first));
                if passed {
                    return Ok((number, RunState::Met));
                }
                runs.begins.insert(first, number);
            }
            let met =
                objects.iter().position(|object| runs.begins.get(&object.key).is_some_and(|other| *other != number));
            if let Some(at) = met {
                objects.truncate(at);
                next = RunState::Met;
            }
            runs.last[number] = match next {
                RunState::More(_) => {
                    objects.last().map(|object| object.key.clone()).or_else(|| runs.last[number].take())
                }
                RunState::Met => None,
            };
        }
        if !self.hand_over(objects).await {
            next = RunState::Met;
        }
        Ok((number, next))
    }

    /// False when the reader wants no more.
    async fn hand_over(&self, objects: Vec<ListedObject>) -> bool {
        self.found.fetch_add(objects.len(), Ordering::Relaxed);
        objects.is_empty() || self.pages.send(Ok(objects)).await.is_ok()
    }
}

/// A text about half-way between two keys, and how far they are apart (as fractions of the key space after the prefix).
/// None when there is no space. Made of printable ASCII, so that it is valid wherever keys are.
fn between(low: &str, high: Option<&str>, prefix: &str) -> Option<(f64, String)> {
    const DIGITS: usize = 7;
    let (first, base) = (0x20_u32, 0x5f_u32);
    let skip = prefix.len();
    let common = high.map_or(skip, |high| {
        let same = low.bytes().zip(high.bytes()).take_while(|(a, b)| a == b).count();
        (0..=same).rev().find(|at| low.is_char_boundary(*at)).unwrap_or(0).max(skip)
    });
    let fraction = |key: Option<&str>, missing: u32| {
        let mut bytes = key.map(|key| key.as_bytes().get(common..).unwrap_or_default().iter());
        (0..DIGITS).fold(0.0, |sum, place| {
            let digit = match &mut bytes {
                None => missing,
                Some(bytes) => bytes.next().map_or(0, |byte| u32::from(*byte).saturating_sub(first).min(base - 1)),
            };
            sum + f64::from(digit) / f64::from(base).powi(i32::try_from(place).unwrap_or(0) + 1)
        })
    };
    let (from, to) = (fraction(Some(low), 0), fraction(high, base - 1));
    let width = to - from;
    if width <= 1e-12 {
        return None;
    }
    let mut rest = from + width / 2.0;
    let mut middle = low.get(..common)?.to_owned();
    for _ in 0..DIGITS {
        rest *= f64::from(base);
        // In 0..base by construction.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let digit = (rest as u32).min(base - 1);
        rest -= f64::from(digit);
        middle.push(char::from_u32(first + digit)?);
    }
    (middle.as_str() > low && high.is_none_or(|high| middle.as_str() < high))
        .then_some((width / 95_f64.powi(i32::try_from(common - skip).unwrap_or(i32::MAX)), middle))
}

#[cfg(test)]
mod tests;
