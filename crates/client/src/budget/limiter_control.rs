//! Control of one prefix limiter (`docs/develop/governor.md`), as plain arithmetic over the times it is given.

use std::time::Duration;

use seqferry_store::priority::Priority;

use super::RequestOutcome;
use super::congestion_window::CongestionWindow;
use super::latency::{Latencies, RequestClass};
use super::priority_shares::PriorityShares;
use super::request_rate::RequestRate;

/// Seconds after a cut of the rate in which no hedged request is sent: the service is overloaded.
const NO_HEDGE: f64 = 1.0;
/// Requests per hedged request: at most one in 64 is hedged.
const HEDGE_SHARE: u64 = 64;

/// Time after the last interactive request during which the window stays narrow. A person who reads on does so within
/// this time.
const INTERACTIVE: Duration = Duration::from_secs(10);
/// Divisor of the reserve: bulk work leaves 1/8 of the requests in flight to interactive work that is present ...
const RESERVED_PART: u64 = 8;
/// ... up to this number.
const LARGEST_RESERVE: u64 = 64;

/// Returns the requests in flight, out of `most`, that bulk work leaves to interactive work.
pub(super) fn reserve(most: u64) -> u64 {
    if most > 1 { most.div_ceil(RESERVED_PART).min(LARGEST_RESERVE) } else { 0 }
}

/// Decision on the start of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartDecision {
    /// The request may start now.
    Now,
    /// The request may start at this time.
    At(Duration),
    /// The request must wait until another one has ended.
    Full,
}

/// State of one limiter. Times count from any fixed start and never go back.
#[derive(Debug)]
pub(super) struct LimiterControl {
    latencies: Latencies,
    window: CongestionWindow,
    rate: RequestRate,
    /// True when a request had to wait for the window at the last check.
    full: bool,
    /// Time at which the last interactive request started.
    interactive: Option<Duration>,
    requests: u64,
    hedges: u64,
}

impl LimiterControl {
    /// A fresh limiter under a hard cap.
    pub(super) fn new(now: Duration, most: usize) -> Self {
        let now = now.as_secs_f64();
        Self {
            latencies: Latencies::default(),
            window: CongestionWindow::new(now, most),
            rate: RequestRate::new(now),
            full: false,
            interactive: None,
            requests: 0,
            hedges: 0,
        }
    }

    /// Set the hard cap.
    pub(super) fn limit(&mut self, most: usize) {
        self.window.limit(most);
    }

    /// Requests that may be in flight.
    pub(super) fn window(&self) -> usize {
        self.window.width()
    }

    /// Requests that may start per second; None as long as the service has never throttled.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate.rate()
    }

    /// Decides whether another request may start. Must be called only while one waits. `present`: bulk work leaves a
    /// reserve to interactive work.
    pub(super) fn may_start(
        &mut self,
        now: Duration,
        priority: Priority,
        in_flight: &PriorityShares,
        present: bool,
    ) -> StartDecision {
        let at = now.as_secs_f64();
        let (width, reserve) = self.width(now, present);
        self.full = !in_flight.has_room(priority, 1, width, reserve);
        if self.full {
            self.rate.rest(at);
            return StartDecision::Full;
        }
        match self.rate.due(at, self.window.rate(), priority) {
            Some(due) => StartDecision::At(now + Duration::from_secs_f64(due - at)),
            None => StartDecision::Now,
        }
    }

    /// True when bulk requests have less in flight than the window lets them have.
    pub(super) fn has_room_for_bulk(&self, now: Duration, in_flight: &PriorityShares, present: bool) -> bool {
        let (width, reserve) = self.width(now, present);
        in_flight.is_below_reserve(1, width, reserve)
    }

    /// Requests that may be in flight, and how many of them bulk requests leave alone.
    fn width(&self, now: Duration, present: bool) -> (u64, u64) {
        let width = self.window.width() as u64;
        let learning = width - self.window.bulk_width(self.is_interactive(now)) as u64;
        (width, learning.max(if present { reserve(width) } else { 0 }))
    }

    /// True when an interactive request started here within the last [`INTERACTIVE`].
    fn is_interactive(&self, now: Duration) -> bool {
        self.interactive.is_some_and(|last| now.saturating_sub(last) < INTERACTIVE)
    }

    /// Records that no request waits.
    pub(super) fn rest(&mut self, now: Duration) {
        self.full = false;
        self.rate.rest(now.as_secs_f64());
    }

    /// Records the start of a request beside those in flight.
    pub(super) fn note_start(&mut self, now: Duration, priority: Priority, in_flight: &PriorityShares) {
        if priority == Priority::Interactive {
            if !self.is_interactive(now) {
                self.window.share();
            }
            self.interactive = Some(now);
        }
        let (width, reserve) = self.width(now, false);
        if !in_flight.is_below_reserve(0, width, reserve) {
            // More bulk requests are in flight than the bases are to be measured with.
            self.latencies.relearn(now.as_secs_f64());
        }
        self.requests += 1;
        self.rate.note_start(now.as_secs_f64(), self.window.rate());
    }

    /// Records the end of a request that started at `started`.
    pub(super) fn note_end(&mut self, now: Duration, started: Duration, class: RequestClass, how: RequestOutcome) {
        let interactive = self.is_interactive(now);
        let (now, started) = (now.as_secs_f64(), started.as_secs_f64());
        match how {
            RequestOutcome::Worked => {
                let latency = now - started;
                let base = self.latencies.note_answer(class, started, latency);
                // Until the service throttles, the rate follows the window: a request that waits for the rate waits for
                // the window.
                let limiting = self.full || (self.rate.rate().is_none() && self.rate.limiting());
                if self.window.note_answer(now, latency, base, limiting, interactive) {
                    self.latencies.relearn(now);
                }
            }
            RequestOutcome::Throttled => {
                self.rate.note_refusal(now, started, self.window.rate(), self.window.latency());
            }
            RequestOutcome::Failed | RequestOutcome::Abandoned => {}
        }
    }

    /// Time after the start of a request from which a hedged request is worth while. None: unknown as yet.
    pub(super) fn slow_after(&self, class: RequestClass) -> Option<Duration> {
        self.latencies.slow_after(class).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }

    /// True when a hedged request may be sent beside a slow one now; counts it as sent.
    pub(super) fn hedge(&mut self, now: Duration) -> bool {
        let undisturbed = self.rate.since_cut(now.as_secs_f64()).is_none_or(|since| since >= NO_HEDGE);
        let may = undisturbed && (self.hedges + 1) * HEDGE_SHARE <= self.requests;
        self.hedges += u64::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn class() -> RequestClass {
        RequestClass::new("PutObject", 0)
    }

    fn may_start(control: &mut LimiterControl, now: Duration, in_flight: u64) -> StartDecision {
        let mut shares = PriorityShares::default();
        shares.grant(Priority::Bulk, in_flight, false);
        control.may_start(now, Priority::Bulk, &shares, false)
    }

    /// Sends requests until `until` to a service that takes `latency` and refuses every `nth` request immediately.
    fn run(control: &mut LimiterControl, latency: Duration, nth: Option<u64>, until: Duration) {
        let mut under_way = std::collections::VecDeque::new();
        let (mut now, mut count) = (Duration::ZERO, 0);
        while now < until {
            while under_way.front().is_some_and(|started| *started + latency <= now) {
                if let Some(started) = under_way.pop_front() {
                    control.note_end(now, started, class(), RequestOutcome::Worked);
                }
            }
            match may_start(control, now, under_way.len() as u64) {
                StartDecision::Now => {
                    control.note_start(now, Priority::Bulk, &PriorityShares::default());
                    count += 1;
                    if nth.is_some_and(|nth| count % nth == 0) {
                        control.note_end(now, now, class(), RequestOutcome::Throttled);
                    } else {
                        under_way.push_back(now);
                    }
                }
                StartDecision::At(due) => now = due.max(now + Duration::from_micros(10)),
                StartDecision::Full => now += MILLISECOND,
            }
        }
    }

    #[test]
    fn starts_modest_and_widens_while_nothing_gets_slower() {
        let mut control = LimiterControl::new(Duration::ZERO, 1000);
        assert_eq!(control.window(), 32);

        run(&mut control, 100 * MILLISECOND, None, Duration::from_secs(5));

        assert_eq!(control.window(), 1000);
        assert_eq!(control.rate(), None);
    }

    #[test]
    fn one_burst_of_refusals_cuts_once() {
        let mut control = LimiterControl::new(Duration::ZERO, 1000);
        run(&mut control, 100 * MILLISECOND, None, Duration::from_secs(5));
        let (sent, now) = (Duration::from_millis(4999), Duration::from_secs(5));
        control.note_end(now, sent, class(), RequestOutcome::Throttled);
        for _ in 0..10 {
            control.note_end(now, sent, class(), RequestOutcome::Throttled);
        }
        let after_one = control.rate();
        assert!(after_one.is_some());

        for _ in 0..20 {
            control.note_end(now + MILLISECOND, sent, class(), RequestOutcome::Throttled);
        }

        assert_eq!(control.rate(), after_one);
    }

    #[test]
    fn a_refusal_now_and_then_is_let_pass() {
        let mut control = LimiterControl::new(Duration::ZERO, 1000);

        run(&mut control, 100 * MILLISECOND, Some(4000), Duration::from_mins(1));

        assert_eq!(control.rate(), None);
    }

    #[test]
    fn a_service_that_refuses_some_whatever_the_rate_does_not_bring_work_to_a_halt() {
        let mut control = LimiterControl::new(Duration::ZERO, 1000);

        run(&mut control, 100 * MILLISECOND, Some(5), Duration::from_mins(1));

        // Two in flight of 0.1 s each.
        assert!(control.rate().is_some_and(|rate| rate >= 19.0), "{:?}", control.rate());
    }

    #[test]
    fn never_above_the_cap_nor_below_one() {
        for most in [1, 2, 3, 5] {
            let mut control = LimiterControl::new(Duration::ZERO, most);
            for round in 0..100 {
                let now = round * 10 * MILLISECOND;
                if may_start(&mut control, now, 0) == StartDecision::Now {
                    control.note_start(now, Priority::Bulk, &PriorityShares::default());
                }
                let how = if round % 3 == 0 { RequestOutcome::Throttled } else { RequestOutcome::Worked };
                control.note_end(now + MILLISECOND, now, class(), how);
                assert!((1..=most).contains(&control.window()));
            }
            control.limit(10);
            assert_eq!(control.window(), 10);
        }
    }

    #[test]
    fn few_requests_are_sent_twice_and_none_where_the_service_has_just_refused() {
        let mut control = LimiterControl::new(Duration::ZERO, 1000);
        run(&mut control, 100 * MILLISECOND, None, Duration::from_secs(5));
        let (sent, now) = (Duration::from_millis(4999), Duration::from_secs(5));
        assert!(control.hedge(now));

        for _ in 0..10 {
            control.note_end(now, sent, class(), RequestOutcome::Throttled);
        }

        assert!(!control.hedge(now + 500 * MILLISECOND));
        assert!(control.hedge(now + Duration::from_secs(2)));
    }
}
