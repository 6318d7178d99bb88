//! The prefix limiters of a budget and the requests that wait at them.
//!
//! All decisions are taken under one lock, by [`PrefixLimiters::next`]. Interactive requests start before bulk ones.
//! Each limiter and the hard cap start at least one bulk request for every three interactive ones while both wait.

use std::time::Duration;

use seqferry_store::priority::{Priority, PriorityMap};

use super::fair_queue::FairQueue;
use super::latency::RequestClass;
use super::limiter_control::{LimiterControl, StartDecision, reserve};
use super::priority_shares::PriorityShares;
use super::spacing::StartSpacing;
use super::stats::{PREFIX_CLASSES, PrefixClassStats, RequestCounts};
use super::{AccessKind, FlowId, PermitRequest, RequestOutcome};

/// Idle limiters that are kept. Their knowledge takes only a few seconds to regain.
const IDLE_LIMITERS: usize = 64;
/// Idle time after which a limiter loses its name in the statistics to a busier one.
const NAME_KEPT: Duration = Duration::from_mins(1);

/// A request that waits for its permit.
#[derive(Debug)]
pub(super) struct Waiter<W> {
    pub(super) wake: W,
    pub(super) class: RequestClass,
    /// Object bytes that it moves.
    pub(super) bytes: u64,
    since: Duration,
    is_retry: bool,
}

/// A started request, with the facts that are counted when it ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartedRequest {
    pub(super) limiter: u64,
    pub(super) priority: Priority,
    pub(super) class: RequestClass,
    pub(super) bytes: u64,
    pub(super) at: Duration,
    /// Time that it waited for its permit.
    pub(super) waited: Duration,
}

/// Limiter of the reads or writes below one prefix of a bucket, which the service limits separately.
#[derive(Debug)]
struct PrefixLimiter<W> {
    id: u64,
    bucket: String,
    prefix: String,
    access: AccessKind,
    control: LimiterControl,
    waiting: PriorityMap<FairQueue<FlowId, Waiter<W>>>,
    /// Upper bound of the waiters that gave up and are still in a queue.
    abandoned: usize,
    in_flight: PriorityShares,
    used: Duration,
    counted: RequestCounts,
    /// True when the statistics show the limiter by its name.
    is_named: bool,
}

/// All limiters under one cap. `W` wakes a waiter.
#[derive(Debug)]
pub(super) struct PrefixLimiters<W> {
    all: Vec<PrefixLimiter<W>>,
    /// True for a waiter that was dropped.
    gone: fn(&W) -> bool,
    /// Index of the limiter that is served first: limiters that wait for the cap are served in turn.
    turn: usize,
    ids: u64,
    in_flight: PriorityShares,
    /// True when bulk requests leave a reserve to interactive ones.
    interactive_present: bool,
    /// Counts of limiters that have lost their names: reads and writes.
    nameless: [RequestCounts; 2],
    pub(super) most: usize,
    spacing: StartSpacing,
    pub(super) requests: u64,
    pub(super) retries: u64,
    pub(super) throttled: u64,
    pub(super) hedges: u64,
    /// Object bytes of requests that did their work.
    pub(super) bytes: u64,
    /// Waits of requests for their permits.
    pub(super) waited: Duration,
    /// Times of requests in flight.
    pub(super) busy: Duration,
}

/// Present state of one prefix limiter.
#[cfg(test)]
#[derive(Debug)]
pub(super) struct LimiterStats {
    /// Bucket.
    pub(super) bucket: String,
    /// Requests that have not ended.
    pub(super) in_flight: u64,
    /// Requests that wait to begin.
    pub(super) waiting: usize,
}

/// Next step of the limiters.
pub(super) enum LimiterStep<W> {
    /// Start this waiter; it has been counted as started.
    Start(W, StartedRequest),
    /// No waiter may start before this time.
    At(Duration),
    /// No waiter may start before a request has ended.
    Wait,
}

impl<W> PrefixLimiter<W> {
    fn waiting(&self) -> usize {
        Priority::ALL.into_iter().map(|priority| self.waiting[priority].len()).sum()
    }

    fn class_stats(&self) -> PrefixClassStats {
        PrefixClassStats {
            bucket: self.bucket.clone(),
            prefix: self.prefix.clone(),
            access: self.access,
            in_flight: usize::try_from(self.in_flight.total()).unwrap_or(usize::MAX),
            waiting: self.waiting(),
            window: self.control.window(),
            rate: self.control.rate(),
            counted: self.counted.clone(),
        }
    }

    /// True when a bulk request goes before interactive ones here: bulk work is owed a start, waits and has space.
    fn is_turn_of_bulk(&self, now: Duration, interactive_present: bool) -> bool {
        self.in_flight.owes_bulk(1)
            && !self.waiting[Priority::Bulk].is_empty()
            && self.control.has_room_for_bulk(now, &self.in_flight, interactive_present)
    }
}

impl<W> PrefixLimiters<W> {
    pub(super) fn new(most: usize, gone: fn(&W) -> bool) -> Self {
        Self {
            all: Vec::new(),
            gone,
            turn: 0,
            ids: 0,
            in_flight: PriorityShares::default(),
            interactive_present: false,
            nameless: Default::default(),
            most: most.max(1),
            spacing: StartSpacing::default(),
            requests: 0,
            retries: 0,
            throttled: 0,
            hedges: 0,
            bytes: 0,
            waited: Duration::ZERO,
            busy: Duration::ZERO,
        }
    }

    fn find(&mut self, id: u64) -> Option<&mut PrefixLimiter<W>> {
        self.all.iter_mut().find(|limiter| limiter.id == id)
    }

    /// Requests that have not ended.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight.total()
    }

    /// Turns the reserve for interactive requests on or off.
    pub(super) fn set_interactive_present(&mut self, present: bool) {
        self.interactive_present = present;
    }

    /// Queue up. Returns the limiter's id.
    pub(super) fn wait(&mut self, now: Duration, wanted: PermitRequest<'_>, wake: W) -> u64 {
        let class = RequestClass::new(wanted.operation, wanted.bytes);
        let waiter = Waiter { wake, class, bytes: wanted.bytes, since: now, is_retry: wanted.is_retry };
        let same = |limiter: &PrefixLimiter<W>| {
            limiter.access == wanted.access && limiter.bucket == wanted.bucket && limiter.prefix == wanted.prefix
        };
        let index = self.all.iter().position(same).unwrap_or_else(|| {
            self.forget_one();
            self.ids += 1;
            self.all.push(PrefixLimiter {
                id: self.ids,
                bucket: wanted.bucket.to_owned(),
                prefix: wanted.prefix.to_owned(),
                access: wanted.access,
                control: LimiterControl::new(now, self.most),
                waiting: PriorityMap::default(),
                abandoned: 0,
                in_flight: PriorityShares::default(),
                used: now,
                counted: RequestCounts::default(),
                is_named: false,
            });
            self.all.len() - 1
        });
        if !self.all[index].is_named {
            self.name(now, index);
        }
        let limiter = &mut self.all[index];
        limiter.used = now;
        limiter.waiting[wanted.priority].push(wanted.job, wanted.rank, waiter);
        limiter.id
    }

    /// Forget the limiter that was idle for longest, if there are too many.
    fn forget_one(&mut self) {
        if self.all.len() < IDLE_LIMITERS {
            return;
        }
        let idle = |limiter: &PrefixLimiter<W>| limiter.in_flight.total() == 0 && limiter.waiting() == 0;
        let idle = self.all.iter().enumerate().filter(|(_, limiter)| idle(limiter));
        if let Some((index, _)) = idle.min_by_key(|(_, limiter)| limiter.used) {
            let forgotten = self.all.swap_remove(index);
            self.nameless[forgotten.access as usize].add(&forgotten.counted);
        }
    }

    /// Show a limiter by its name, if a name is free or the limiter that was idle for longest can lose its own.
    fn name(&mut self, now: Duration, index: usize) {
        if self.all.iter().filter(|limiter| limiter.is_named).count() >= PREFIX_CLASSES {
            let unused = |limiter: &&mut PrefixLimiter<W>| {
                limiter.is_named && limiter.in_flight.total() == 0 && now.saturating_sub(limiter.used) > NAME_KEPT
            };
            let unused = self.all.iter_mut().filter(unused).min_by_key(|limiter| limiter.used);
            let Some(unused) = unused else { return };
            unused.is_named = false;
            let counted = std::mem::take(&mut unused.counted);
            self.nameless[unused.access as usize].add(&counted);
        }
        let limiter = &mut self.all[index];
        limiter.is_named = true;
        let counted = std::mem::take(&mut limiter.counted);
        self.nameless[limiter.access as usize].add(&counted);
    }

    /// Records that a waiter at this limiter has abandoned.
    pub(super) fn abandon(&mut self, id: u64) {
        let gone = self.gone;
        let Some(limiter) = self.find(id) else { return };
        limiter.abandoned += 1;
        if limiter.abandoned * 2 > limiter.waiting() {
            for priority in Priority::ALL {
                limiter.waiting[priority].retain(|waiter| !gone(&waiter.wake));
            }
            limiter.abandoned = 0;
        }
    }

    /// Returns the next step.
    pub(super) fn next(&mut self, now: Duration) -> LimiterStep<W> {
        let mut due = None;
        for limiter in self.all.iter_mut().filter(|limiter| limiter.waiting() == 0) {
            limiter.control.rest(now);
        }
        if let Some(at) = self.spacing.due(now) {
            return self.wait_for_spacing(now, at);
        }
        // Bulk requests have their turn at the cap as well.
        let first = if self.in_flight.owes_bulk(1) { Priority::Bulk } else { Priority::Interactive };
        for priority in [first, first.other()] {
            if let Some((wake, started)) = self.next_of(now, priority, &mut due) {
                return LimiterStep::Start(wake, started);
            }
        }
        due.map_or(LimiterStep::Wait, LimiterStep::At)
    }

    /// Waits until `at`, the next start that the user's limit allows. The limiters learn nothing about the service
    /// meanwhile.
    fn wait_for_spacing(&mut self, now: Duration, at: Duration) -> LimiterStep<W> {
        let mut anything = false;
        for limiter in self.all.iter_mut().filter(|limiter| limiter.waiting() > 0) {
            limiter.control.rest(now);
            anything = true;
        }
        if anything { LimiterStep::At(at) } else { LimiterStep::Wait }
    }

    /// Start the next request of this priority, or find when the first one is due.
    fn next_of(
        &mut self,
        now: Duration,
        priority: Priority,
        due: &mut Option<Duration>,
    ) -> Option<(W, StartedRequest)> {
        let present = self.interactive_present;
        let bulk_has_room = self.has_room(Priority::Bulk);
        let has_room = self.has_room(priority);
        let count = self.all.len();
        for offset in 0..count {
            let index = (self.turn + offset) % count;
            let limiter = &mut self.all[index];
            if limiter.waiting[priority].is_empty() {
                continue;
            }
            if !has_room {
                // The requests wait for the cap, so the limiters learn nothing.
                limiter.control.rest(now);
                continue;
            }
            let start = limiter.control.may_start(now, priority, &limiter.in_flight, present);
            match start {
                StartDecision::Full => {}
                StartDecision::At(time) => *due = Some(due.map_or(time, |first| first.min(time))),
                StartDecision::Now
                    if priority == Priority::Interactive && bulk_has_room && limiter.is_turn_of_bulk(now, present) => {}
                StartDecision::Now => {
                    let (gone, queue) = (self.gone, &mut limiter.waiting[priority]);
                    if let Some(waiter) = std::iter::from_fn(|| queue.pop()).find(|waiter| !gone(&waiter.wake)) {
                        let Waiter { wake, class, bytes, since, is_retry } = waiter;
                        let waited = now.saturating_sub(since);
                        let started = StartedRequest { limiter: limiter.id, priority, class, bytes, at: now, waited };
                        limiter.counted.wait.count(waited);
                        self.waited += waited;
                        limiter.counted.retries += u64::from(is_retry);
                        self.retries += u64::from(is_retry);
                        self.turn = index + 1;
                        self.start(now, index, priority);
                        return Some((wake, started));
                    }
                }
            }
        }
        None
    }

    /// True when the hard cap lets a request of this priority start.
    fn has_room(&self, priority: Priority) -> bool {
        let most = self.most as u64;
        let reserve = if self.interactive_present { reserve(most) } else { 0 };
        self.in_flight.has_room(priority, 1, most, reserve)
    }

    fn start(&mut self, now: Duration, index: usize, priority: Priority) {
        let bulk_waits = priority == Priority::Interactive
            && self.all.iter().any(|limiter| !limiter.waiting[Priority::Bulk].is_empty());
        let limiter = &mut self.all[index];
        limiter.control.note_start(now, priority, &limiter.in_flight);
        limiter.in_flight.grant(priority, 1, !limiter.waiting[Priority::Bulk].is_empty());
        limiter.used = now;
        limiter.counted.begun += 1;
        self.in_flight.grant(priority, 1, bulk_waits);
        self.spacing.note_start(now);
        self.requests += 1;
    }

    /// Records the end of a started request.
    pub(super) fn note_end(&mut self, now: Duration, request: StartedRequest, how: RequestOutcome) {
        self.in_flight.give_back(request.priority, 1);
        self.throttled += u64::from(how == RequestOutcome::Throttled);
        let took = now.saturating_sub(request.at);
        self.busy += took;
        if how == RequestOutcome::Worked {
            self.bytes += request.bytes;
        }
        if let Some(limiter) = self.find(request.limiter) {
            limiter.in_flight.give_back(request.priority, 1);
            limiter.used = now;
            limiter.control.note_end(now, request.at, request.class, how);
            limiter.counted.note_end(request.class.operation(), request.bytes, took, how);
        }
    }

    /// Time after the start of a request of this class from which a hedged request is worth while.
    pub(super) fn slow_after(&mut self, id: u64, class: RequestClass) -> Option<Duration> {
        self.find(id)?.control.slow_after(class)
    }

    /// Start a second request beside a slow one at this limiter, if that is allowed now.
    pub(super) fn hedge(&mut self, now: Duration, id: u64, priority: Priority) -> bool {
        let Some(index) = self.all.iter().position(|limiter| limiter.id == id) else { return false };
        let room = self.spacing.due(now).is_none() && self.has_room(priority);
        let may = room && self.all[index].control.hedge(now);
        if may {
            self.hedges += 1;
            self.all[index].counted.hedges += 1;
            self.start(now, index, priority);
        }
        may
    }

    /// Limit the requests started per second; None lifts the limit.
    pub(super) fn limit_starts(&mut self, now: Duration, per_second: Option<u32>) {
        self.spacing.limit(now, per_second);
    }

    pub(super) fn limit(&mut self, most: usize) {
        self.most = most.max(1);
        for limiter in &mut self.all {
            limiter.control.limit(self.most);
        }
    }

    /// Present state of each limiter.
    #[cfg(test)]
    pub(super) fn stats(&self) -> Vec<LimiterStats> {
        let stats = |limiter: &PrefixLimiter<W>| LimiterStats {
            bucket: limiter.bucket.clone(),
            in_flight: limiter.in_flight.total(),
            waiting: limiter.waiting(),
        };
        self.all.iter().map(stats).collect()
    }

    /// Counts of each prefix class with a name, and of the others together, reads and writes apart.
    pub(super) fn classes(&self) -> Vec<PrefixClassStats> {
        let mut classes: Vec<PrefixClassStats> =
            self.all.iter().filter(|limiter| limiter.is_named).map(PrefixLimiter::class_stats).collect();
        for access in [AccessKind::Read, AccessKind::Write] {
            let mut others = PrefixClassStats::of_others(access, self.nameless[access as usize].clone());
            for limiter in self.all.iter().filter(|limiter| !limiter.is_named && limiter.access == access) {
                let one = limiter.class_stats();
                others.in_flight += one.in_flight;
                others.waiting += one.waiting;
                others.window += one.window;
                others.counted.add(&one.counted);
            }
            if others != PrefixClassStats::of_others(access, RequestCounts::default()) {
                classes.push(others);
            }
        }
        classes
    }
}
