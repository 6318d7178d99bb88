//! The request rate: how many requests may start per second.
//!
//! **Until the service first throttles** the rate is four times what the window makes by itself: it only spreads the
//! starts over a round trip, so that a window that has just grown causes no burst.
//!
//! **After the first throttling** the rate is the controlled quantity: a `SlowDown` arrives within milliseconds however
//! long requests take, so the number in flight says little about the rate. The rate grows steadily while requests wait
//! for it. It is cut to 95 % of what the service accepted, at most once per duration of such an answer: only the first
//! refusal of a burst counts. Processes that share a limit end up with equal shares, since growth depends on the rate
//! less than the cuts do (see `docs/develop/governor.md`). After a long time without a refusal the limit has probably
//! moved, and growth quickens.
//!
//! **Interactive requests** start up to [`BORROWED`] seconds before they are due; bulk requests wait for those seconds.

use seqferry_store::priority::Priority;

/// Starts per second for each one that the window makes, while the service has not throttled.
const SPREAD: f64 = 4.0;
/// Share of the accepted rate that is left after a cut. Near the limit the rate swings by the rest.
const CUT: f64 = 0.95;
/// Growth of the rate, in requests/s per second: this factor of the square root of the rate ...
const GROWTH: f64 = 1.5;
/// ... but at most this share of the rate, so that a limit of ten requests per second is kept as well.
const GROWTH_SHARE: f64 = 0.04;
/// Seconds without a refusal after which growth quickens with the square of the time ...
const QUIET: f64 = 6.0;
/// ... up to this factor.
const QUICKEST: f64 = 16.0;
/// Requests in flight that are always allowed: a service that refuses some requests at any rate, since other clients
/// crowd it, must not stop the work.
const LEAST: f64 = 2.0;
/// Latency in seconds that is assumed before the first answer.
const UNKNOWN_LATENCY: f64 = 1.0;
/// Share of the starts whose refusals are ignored: a service refuses some requests for reasons of its own ...
const PASSED: f64 = 0.000_5;
/// ... up to this number at a time, which is also the number at the start.
const PASSED_MOST: f64 = 4.0;
const PASSED_FIRST: f64 = 2.0;
/// Resolution of timers in seconds: starts that are late by up to this much are made up for immediately.
const CATCH_UP: f64 = 0.005;
/// Seconds before its time at which a start is due: a shorter wait, rounded to the clock's ticks, might never end.
const INSTANT: f64 = 1e-6;
/// Seconds over which the rate of starts is averaged.
const COUNTED: f64 = 0.05;
/// Bounds in seconds of the time between cuts, which is two times the duration of a refusal.
const BETWEEN_CUTS: (f64, f64) = (0.02, 2.0);
/// Seconds of the rate that interactive requests may use before bulk requests have waited for them.
const BORROWED: f64 = 0.25;
/// Number of starts that is added when the share of refusals is computed, so that a few starts do not exaggerate it.
const STARTS: f64 = 10.0;

/// See the module. Times are in seconds.
#[derive(Debug)]
pub(super) struct RequestRate {
    /// Requests per second; None until the service first throttles.
    rate: Option<f64>,
    /// Starts that came before they were due at `passed`; below 0, the number that is overdue. Counted in requests and
    /// not in time, so that a change of the rate changes the wait.
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
    /// Refusals that may still be ignored.
    passes: f64,
    /// Seconds that a refusal takes, smoothed.
    refusal: f64,
    /// Present starts per second.
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

    /// Records the start of a request.
    pub(super) fn note_start(&mut self, now: f64, window_rate: Option<f64>) {
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

    /// Records that no request waits for the rate.
    pub(super) fn rest(&mut self, now: f64) {
        self.grow(now);
        self.limiting = false;
    }

    /// Records a refusal of a request that started at `started`. `latency` is the average latency of a request.
    pub(super) fn note_refusal(&mut self, now: f64, started: f64, window_rate: Option<f64>, latency: Option<f64>) {
        self.refusal =
            if self.refusal > 0.0 { self.refusal + (now - started - self.refusal) / 8.0 } else { now - started };
        if started < self.cut {
            // The request was sent before the last cut: its refusal says nothing about the present rate.
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
        // One refusal only touches the limit; more of them show how far beyond it the rate is.
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
