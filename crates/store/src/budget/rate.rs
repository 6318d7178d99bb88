//! The request rate: how many requests may start per second.
//!
//! **Until the service first throttles** the rate is four times what the window makes by itself: it only spreads the starts
//! over a round trip, so that a window that has just grown is no burst.
//!
//! **From then on** the rate is what is controlled: a `SlowDown` arrives within milliseconds whatever the requests take, so
//! the number in flight says little about the rate. The rate grows steadily while requests wait for it, and is cut to 95 %
//! of what the service accepted, at most once per time that such an answer takes: of one burst only the first counts.
//! Processes that share a limit end up with equal shares, since growth depends on the rate less than the cuts do (see
//! `docs/governor.md`). When nothing has been refused for long, the limit has probably moved, and growth quickens.
//!
//! **Interactive requests** start up to [`BORROWED`] seconds before they are due; bulk requests wait for those seconds.

use super::priority::Priority;

/// While the service has not throttled: starts per second for each that the window makes.
const SPREAD: f64 = 4.0;
/// Share of the accepted rate that is left after a cut. Near the limit the rate swings by the rest.
const CUT: f64 = 0.95;
/// Growth in requests/s per second: this much of the square root of the rate ...
const GROWTH: f64 = 1.5;
/// ... but no larger share of the rate than this: a limit of ten requests a second is to be held as well.
const GROWTH_SHARE: f64 = 0.04;
/// After so many seconds without a refusal growth quickens with the square of the time ...
const QUIET: f64 = 6.0;
/// ... up to this factor.
const QUICKEST: f64 = 16.0;
/// So few requests in flight are always allowed: a service that refuses some whatever the rate, since others crowd it, must
/// not bring work to a halt.
const LEAST: f64 = 2.0;
/// Latency in seconds that is assumed before the first answer.
const UNKNOWN_LATENCY: f64 = 1.0;
/// A service refuses a request now and then for reasons of its own: that share of the starts is let pass ...
const PASSED: f64 = 0.000_5;
/// ... and no more than so many at a time; at the beginning so many.
const PASSED_MOST: f64 = 4.0;
const PASSED_FIRST: f64 = 2.0;
/// Timers are this coarse: so much may be made up for at once.
const CATCH_UP: f64 = 0.005;
/// Seconds before its time at which a start is due: a shorter wait, rounded to the clock's ticks, could never end.
const INSTANT: f64 = 1e-6;
/// Starts are counted over about so many seconds.
const COUNTED: f64 = 0.05;
/// Bounds of the time between cuts: twice what a refusal takes.
const BETWEEN_CUTS: (f64, f64) = (0.02, 2.0);
/// Seconds of the rate that interactive requests may use before bulk requests have waited for them.
const BORROWED: f64 = 0.25;
/// A share of refusals is believed as from so many starts.
const STARTS: f64 = 10.0;

/// See the module. Times are in seconds.
#[derive(Debug)]
pub(super) struct RequestRate {
    /// Requests per second; None until the service first throttles.
    rate: Option<f64>,
    /// Starts that came before they were due at `passed`; below 0 so many are overdue. Counted in requests and not in
    /// time, so that a rate that changes changes the wait.
    ahead: f64,
    passed: f64,
    /// Time up to which growth has been counted.
    grown: f64,
    /// True when requests wait for the rate, and for nothing else.
    limiting: bool,
    /// Seconds since the last cut in which requests waited for the rate.
    quiet: f64,
    cut: f64,
    starts_since_cut: u32,
    refused_since_cut: u32,
    /// Refusals that are let pass.
    passes: f64,
    /// Seconds that a refusal takes, smoothed.
    refusal: f64,
    /// Starts per second just now.
    starting: f64,
    started: f64,
}

impl RequestRate {
    pub(super) fn new(now: f64) -> Self {
        Self {
            rate: None,
            ahead: 0.0,
            passed: now,
            grown: now,
            limiting: false,
            quiet: 0.0,
            cut: now,
            starts_since_cut: 0,
            refused_since_cut: 0,
            passes: PASSED_FIRST,
            refusal: 0.0,
            starting: 0.0,
            started: now,
        }
    }

    /// Requests per second, once the service has throttled.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// True when requests wait for the rate.
    pub(super) fn limiting(&self) -> bool {
        self.limiting
    }

    /// Seconds since the last cut; None when there was none.
    pub(super) fn since_cut(&self, now: f64) -> Option<f64> {
        self.rate.map(|_| now - self.cut)
    }

    /// Time at which the next request may start; None: now. `window_rate`: starts per second that the window makes by
    /// itself.
    pub(super) fn due(&mut self, now: f64, window_rate: Option<f64>, priority: Priority) -> Option<f64> {
        self.grow(now);
        let Some(rate) = self.current(window_rate) else {
            self.limiting = false;
            return None;
        };
        self.pass(now, rate);
        let wait = self.ahead / rate;
        self.limiting = wait > INSTANT;
        let wait = if priority == Priority::Interactive { wait - BORROWED } else { wait };
        (wait > INSTANT).then_some(now + wait)
    }

    /// A request starts.
    pub(super) fn started(&mut self, now: f64, window_rate: Option<f64>) {
        let passed = now - self.started;
        self.starting = self.starting * (-passed / COUNTED).exp() + 1.0 / COUNTED;
        self.started = now;
        self.starts_since_cut = self.starts_since_cut.saturating_add(1);
        self.passes = (self.passes + PASSED).min(PASSED_MOST);
        if let Some(rate) = self.current(window_rate) {
            self.pass(now, rate);
            self.ahead = self.ahead.max(-CATCH_UP * rate) + 1.0;
        }
    }

    /// No request waits for the rate now.
    pub(super) fn rest(&mut self, now: f64) {
        self.grow(now);
        self.limiting = false;
    }

    /// The service has refused a request that started at `started`. `latency` is what a request takes on average.
    pub(super) fn refused(&mut self, now: f64, started: f64, window_rate: Option<f64>, latency: Option<f64>) {
        self.refusal =
            if self.refusal > 0.0 { self.refusal + (now - started - self.refusal) / 8.0 } else { now - started };
        if started < self.cut {
            // Sent before the last cut: it says nothing of the rate since.
            return;
        }
        if self.passes >= 1.0 {
            self.passes -= 1.0;
            return;
        }
        self.refused_since_cut += 1;
        let between = (2.0 * self.refusal).clamp(BETWEEN_CUTS.0, BETWEEN_CUTS.1);
        if self.rate.is_some() && now - self.cut < between {
            return;
        }
        // One refusal is a touch of the limit; more of them tell how far beyond it the rate is.
        let share = f64::from(self.refused_since_cut - 1) / (f64::from(self.starts_since_cut) + STARTS);
        let rate = self.rate.unwrap_or_else(|| self.starting.min(self.current(window_rate).unwrap_or(f64::INFINITY)));
        let least = LEAST / latency.unwrap_or(UNKNOWN_LATENCY).max(1e-3);
        self.rate = Some((rate * CUT * (1.0 - share)).max(least));
        (self.cut, self.quiet, self.grown) = (now, 0.0, now);
        (self.starts_since_cut, self.refused_since_cut) = (0, 0);
    }

    /// Subtracts the starts that have become due since the last call.
    fn pass(&mut self, now: f64, rate: f64) {
        self.ahead -= (now - self.passed) * rate;
        self.passed = now;
    }

    fn current(&self, window_rate: Option<f64>) -> Option<f64> {
        self.rate.or_else(|| window_rate.map(|rate| SPREAD * rate))
    }

    fn grow(&mut self, now: f64) {
        let passed = now - self.grown;
        self.grown = now;
        if !self.limiting || passed <= 0.0 {
            return;
        }
        if let Some(rate) = &mut self.rate {
            self.quiet += passed;
            let quicker = (self.quiet / QUIET).powi(2).clamp(1.0, QUICKEST);
            *rate += passed * quicker * (GROWTH * rate.sqrt()).min(GROWTH_SHARE * *rate);
        }
    }
}
