//! How many requests may be in flight: as many as the service works on at a time, and as many again.
//!
//! **Crowding** is how much longer requests take than their base. As long as it is 1 each answer lets three requests start,
//! which triples the window in each round trip; at a crowding of [`HEADROOM`] the window stands still; above it shrinks. A
//! service that does `c` requests at a time and queues the others has a crowding of `window / c`, so that the window comes to
//! rest at `HEADROOM * c`: always enough work there, never a flood. One that takes any number has a crowding of 1, and is
//! held back by the pace or the hard cap.
//!
//! When the window has stood in a crowd for long, it is narrowed for a moment to half of what the service seems to work on,
//! and the bases are measured anew: a service that has become slower for other reasons would look crowded for ever.

/// Where every gate starts, and the least that crowding can narrow it to: keeps a small server busy and hurts none.
const START: f64 = 32.0;
/// Requests in flight for each one that is worked on. 2: one works, one waits.
const HEADROOM: f64 = 2.0;
/// How fast the window approaches that: at a crowding of 1 each answer widens it by so many.
const GAIN: f64 = 2.0;
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

    pub(super) fn limit(&mut self, most: usize) {
        self.most = most.max(1) as f64;
        self.width = self.width.min(self.most).max(START.min(self.most));
    }

    /// How much longer requests take than their base.
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

    /// A request was answered after `latency`; its kind has this base, if that is known. `limiting`: requests wait for the
    /// window. Returns whether the bases are to be measured anew, from requests that start now.
    pub(super) fn answered(&mut self, now: f64, latency: f64, base: Option<f64>, limiting: bool) -> bool {
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
        let step = GAIN * (HEADROOM / crowding - 1.0);
        self.width = (self.width + step).clamp(START.min(self.most), self.most);
        let doubtful = crowding >= CROWDED && now - self.doubted >= DOUBT;
        if doubtful {
            (self.doubted, self.learning) = (now, true);
            self.width = (self.width / (HEADROOM * crowding)).max(START.min(self.most));
            (self.taken, self.base) = (0.0, 0.0);
        }
        doubtful
    }
}
