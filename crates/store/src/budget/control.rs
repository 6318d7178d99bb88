//! What one gate lets through: the law of `docs/governor.md`, as plain arithmetic over the times it is given.

use std::time::Duration;

use super::Ended;
use super::latency::{Kind, Latencies};
use super::pace::Pace;
use super::window::Window;

/// So long after a cut nothing is sent twice: the service has enough to do.
const NO_HEDGE: f64 = 1.0;
/// Of so many requests one may be sent a second time.
const HEDGE_SHARE: u64 = 64;

/// Whether a request may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// It may.
    Now,
    /// Not before this time.
    At(Duration),
    /// Not before one has ended.
    Full,
}

/// State of one gate. Times count from any fixed start and never go back.
#[derive(Debug)]
pub struct Control {
    latencies: Latencies,
    window: Window,
    pace: Pace,
    /// Whether requests waited for the window when last asked.
    full: bool,
    requests: u64,
    throttled: u64,
    hedges: u64,
}

impl Control {
    /// A fresh gate under a hard cap.
    pub fn new(now: Duration, most: usize) -> Self {
        let now = now.as_secs_f64();
        Self {
            latencies: Latencies::default(),
            window: Window::new(now, most),
            pace: Pace::new(now),
            full: false,
            requests: 0,
            throttled: 0,
            hedges: 0,
        }
    }

    /// Set the hard cap.
    pub fn limit(&mut self, most: usize) {
        self.window.limit(most);
    }

    /// Requests that may be in flight.
    pub fn window(&self) -> usize {
        self.window.width()
    }

    /// Requests that may start per second; None as long as the service has never throttled.
    pub fn rate(&self) -> Option<f64> {
        self.pace.rate()
    }

    /// Requests started, and those of them that the service refused.
    pub fn counts(&self) -> (u64, u64) {
        (self.requests, self.throttled)
    }

    /// Whether a further request may start. To be asked only while one waits.
    pub fn may_start(&mut self, now: Duration, in_flight: usize) -> Start {
        let at = now.as_secs_f64();
        self.full = in_flight >= self.window.width();
        if self.full {
            self.pace.rest(at);
            return Start::Full;
        }
        match self.pace.due(at, self.window.rate()) {
            Some(due) => Start::At(now + Duration::from_secs_f64(due - at)),
            None => Start::Now,
        }
    }

    /// No request waits.
    pub fn rest(&mut self, now: Duration) {
        self.full = false;
        self.pace.rest(now.as_secs_f64());
    }

    /// A request starts.
    pub fn started(&mut self, now: Duration) {
        self.requests += 1;
        self.pace.started(now.as_secs_f64(), self.window.rate());
    }

    /// A request that started at `started` has ended.
    pub fn ended(&mut self, now: Duration, started: Duration, kind: Kind, how: Ended) {
        let (now, started) = (now.as_secs_f64(), started.as_secs_f64());
        match how {
            Ended::Worked => {
                let latency = now - started;
                let base = self.latencies.answered(kind, started, latency);
                // Until the service throttles the pace follows the window: who waits for it waits for the window.
                let limiting = self.full || (self.pace.rate().is_none() && self.pace.limiting());
                if self.window.answered(now, latency, base, limiting) {
                    self.latencies.relearn(now);
                }
            }
            Ended::Throttled => {
                self.throttled += 1;
                self.pace.refused(now, started, self.window.rate(), self.window.latency());
            }
            Ended::Failed => {}
        }
    }

    /// How long after its start a request is worth being sent a second time. None: unknown as yet.
    pub fn slow_after(&self, kind: Kind) -> Option<Duration> {
        self.latencies.slow_after(kind).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }

    /// Whether a slow request may be sent a second time now; counts it as such.
    pub fn hedge(&mut self, now: Duration) -> bool {
        let undisturbed = self.pace.since_cut(now.as_secs_f64()).is_none_or(|since| since >= NO_HEDGE);
        let may = undisturbed && (self.hedges + 1) * HEDGE_SHARE <= self.requests;
        self.hedges += u64::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn kind() -> Kind {
        Kind::new("PutObject", 0)
    }

    /// Requests without end to a service that takes `latency` and refuses every `nth` request at once, for so long.
    fn run(control: &mut Control, latency: Duration, nth: Option<u64>, until: Duration) {
        let mut under_way = std::collections::VecDeque::new();
        let (mut now, mut count) = (Duration::ZERO, 0);
        while now < until {
            while under_way.front().is_some_and(|started| *started + latency <= now) {
                if let Some(started) = under_way.pop_front() {
                    control.ended(now, started, kind(), Ended::Worked);
                }
            }
            match control.may_start(now, under_way.len()) {
                Start::Now => {
                    control.started(now);
                    count += 1;
                    if nth.is_some_and(|nth| count % nth == 0) {
                        control.ended(now, now, kind(), Ended::Throttled);
                    } else {
                        under_way.push_back(now);
                    }
                }
                Start::At(due) => now = due.max(now + Duration::from_micros(10)),
                Start::Full => now += MILLISECOND,
            }
        }
    }

    #[test]
    fn starts_modest_and_widens_while_nothing_gets_slower() {
        let mut control = Control::new(Duration::ZERO, 1000);
        assert_eq!(control.window(), 32);

        run(&mut control, 100 * MILLISECOND, None, Duration::from_secs(5));

        assert_eq!(control.window(), 1000);
        assert_eq!(control.rate(), None);
    }

    #[test]
    fn one_burst_of_refusals_cuts_once() {
        let mut control = Control::new(Duration::ZERO, 1000);
        run(&mut control, 100 * MILLISECOND, None, Duration::from_secs(5));
        let (sent, now) = (Duration::from_millis(4999), Duration::from_secs(5));
        control.ended(now, sent, kind(), Ended::Throttled);
        for _ in 0..10 {
            control.ended(now, sent, kind(), Ended::Throttled);
        }
        let after_one = control.rate();
        assert!(after_one.is_some());

        for _ in 0..20 {
            control.ended(now + MILLISECOND, sent, kind(), Ended::Throttled);
        }

        assert_eq!(control.rate(), after_one);
    }

    #[test]
    fn a_refusal_now_and_then_is_let_pass() {
        let mut control = Control::new(Duration::ZERO, 1000);

        run(&mut control, 100 * MILLISECOND, Some(4000), Duration::from_mins(1));

        assert_eq!(control.rate(), None);
    }

    #[test]
    fn a_service_that_refuses_some_whatever_the_pace_does_not_bring_work_to_a_halt() {
        let mut control = Control::new(Duration::ZERO, 1000);

        run(&mut control, 100 * MILLISECOND, Some(5), Duration::from_mins(1));

        // Two in flight of 0.1 s each.
        assert!(control.rate().is_some_and(|rate| rate >= 19.0), "{:?}", control.rate());
    }

    #[test]
    fn never_above_the_cap_nor_below_one() {
        for most in [1, 2, 3, 5] {
            let mut control = Control::new(Duration::ZERO, most);
            for round in 0..100 {
                let now = round * 10 * MILLISECOND;
                if control.may_start(now, 0) == Start::Now {
                    control.started(now);
                }
                let how = if round % 3 == 0 { Ended::Throttled } else { Ended::Worked };
                control.ended(now + MILLISECOND, now, kind(), how);
                assert!((1..=most).contains(&control.window()));
            }
            control.limit(10);
            assert_eq!(control.window(), 10);
        }
    }

    #[test]
    fn few_requests_are_sent_twice_and_none_where_the_service_has_just_refused() {
        let mut control = Control::new(Duration::ZERO, 1000);
        run(&mut control, 100 * MILLISECOND, None, Duration::from_secs(5));
        let (sent, now) = (Duration::from_millis(4999), Duration::from_secs(5));
        assert!(control.hedge(now));

        for _ in 0..10 {
            control.ended(now, sent, kind(), Ended::Throttled);
        }

        assert!(!control.hedge(now + 500 * MILLISECOND));
        assert!(control.hedge(now + Duration::from_secs(2)));
    }
}
