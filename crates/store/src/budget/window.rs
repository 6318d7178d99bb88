//! The congestion window: how many requests may be in flight. As many as the service works on at a time, and as many again.
//!
//! **Crowding** is how much longer requests take than their base. As long as it is 1 each answer lets three requests start,
//! which triples the window in each round trip; at a crowding of [`HEADROOM`] the window stands still; above it shrinks. A
//! service that does `c` requests at a time and queues the others has a crowding of `window / c`, so that the window comes to
//! rest at `HEADROOM * c`: always enough work there, never a flood. One that takes any number has a crowding of 1, and is
//! held back by the request rate or the hard cap.
//!
//! While interactive requests share the limiter the window aims at a crowding of [`INTERACTIVE_HEADROOM`]: they wait in
//! the service behind few others, and bulk requests still keep it busy.
//!
//! When the window has stood in a crowd for long, it is narrowed for a moment to half of what the service seems to work on,
//! and the bases are measured anew: a service that has become slower for other reasons would look crowded permanently.

/// Width at which every window starts, and the least that crowding can narrow it to: keeps a small server busy and
/// hurts none.
const START: f64 = 32.0;
/// Requests in flight for each one that is worked on. 2: one works, one waits.
const HEADROOM: f64 = 2.0;
/// The same while interactive requests share the limiter. Jitter and a slow tail alone look like 1.1 to 1.2.
const INTERACTIVE_HEADROOM: f64 = 1.3;
/// The least that crowding can narrow the window to then: small servers work on few requests at a time.
const INTERACTIVE_LEAST: f64 = 4.0;
/// Bulk requests in flight while the bases are measured anew for interactive requests.
const BULK_LEARNING: usize = 4;
/// Speed at which the window approaches that: at a crowding of 1 each answer widens it by so many requests.
const GAIN: f64 = 2.0;
/// The same while interactive requests share the limiter: a narrow window that moved faster would swing.
const INTERACTIVE_GAIN: f64 = 0.5;
/// More crowding than this is doubted ...
const CROWDED: f64 = 1.4;
/// ... every so many seconds.
const DOUBT: f64 = 30.0;
/// Bounds of the number of answers that crowding is averaged over; between them half a window.
const AVERAGED: (f64, f64) = (16.0, 512.0);

/// See the module. Times are in seconds.
#[derive(Debug)]
pub(super) struct Window {
    width: f64,
    most: f64,
    /// Averages of latency and base of those answers whose base is known.
    taken: f64,
    base: f64,
    /// Average latency of all answers; None before the first.
    latency: Option<f64>,
    doubted: f64,
    /// The bases are being measured anew.
    learning: bool,
}

impl Window {
    pub(super) fn new(now: f64, most: usize) -> Self {
        let most = most.max(1) as f64;
        Self { width: START.min(most), most, taken: 0.0, base: 0.0, latency: None, doubted: now, learning: false }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and a number of requests")]
    pub(super) fn width(&self) -> usize {
        self.width as usize
    }

    /// Bulk requests that may be in flight: few while the bases are measured anew for interactive requests.
    pub(super) fn bulk_width(&self, interactive: bool) -> usize {
        if interactive && self.learning { self.width().min(BULK_LEARNING) } else { self.width() }
    }

    pub(super) fn limit(&mut self, most: usize) {
        self.most = most.max(1) as f64;
        self.width = self.width.min(self.most).max(START.min(self.most));
    }

    /// Interactive requests begin to share the limiter. A service that works on fewer requests than the window starts with
    /// was never seen without a crowd: its bases are measured anew.
    pub(super) fn share(&mut self) {
        if self.width <= HEADROOM * START {
            self.forget_bases();
        }
    }

    fn forget_bases(&mut self) {
        self.learning = true;
        (self.taken, self.base) = (0.0, 0.0);
    }

    /// Ratio of the average latency to its base, at least 1; 1 as long as no base is known.
    pub(super) fn crowding(&self) -> f64 {
        if self.base > 0.0 { (self.taken / self.base).max(1.0) } else { 1.0 }
    }

    /// Seconds that a request takes on average; None before the first answer.
    pub(super) fn latency(&self) -> Option<f64> {
        self.latency
    }

    /// Requests per second that the window makes by itself; None before the first answer.
    pub(super) fn rate(&self) -> Option<f64> {
        self.latency.map(|latency| self.width / latency.max(1e-6))
    }

    /// A request was answered after `latency`; its class has this base, if that is known. `limiting`: requests wait for the
    /// window. Returns whether the bases are to be measured anew, from requests that start now.
    pub(super) fn answered(
        &mut self,
        now: f64,
        latency: f64,
        base: Option<f64>,
        limiting: bool,
        interactive: bool,
    ) -> bool {
        let (headroom, gain, least) = if interactive {
            (INTERACTIVE_HEADROOM, INTERACTIVE_GAIN, INTERACTIVE_LEAST)
        } else {
            (HEADROOM, GAIN, START)
        };
        let least = least.min(self.most);
        let weight = 1.0 / (self.width / 2.0).clamp(AVERAGED.0, AVERAGED.1);
        self.latency = Some(self.latency.map_or(latency, |mean| mean + weight * (latency - mean)));
        if let Some(base) = base {
            self.learning = false;
            if self.base > 0.0 {
                self.taken += weight * (latency - self.taken);
                self.base += weight * (base - self.base);
            } else {
                (self.taken, self.base) = (base, base);
            }
        }
        // While the bases are measured anew the window stays narrow.
        if !limiting || self.learning {
            return false;
        }
        let crowding = self.crowding();
        let step = gain * (headroom / crowding - 1.0);
        self.width = (self.width + step).clamp(least, self.most.max(least));
        let doubtful = crowding >= CROWDED && now - self.doubted >= DOUBT;
        if doubtful {
            self.doubted = now;
            self.width = (self.width / (headroom * crowding)).max(least);
            self.forget_bases();
        }
        doubtful
    }
}
