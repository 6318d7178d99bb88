//! The congestion window: how many requests may be in flight. It aims at two times the number that the service works
//! on.
//!
//! **Crowding** is the factor by which requests take longer than their base. At a crowding of 1 each answer lets three
//! requests start, which triples the window in each round trip. At a crowding of [`HEADROOM`] the window stands still;
//! above, it shrinks. A service that does `c` requests at a time and queues the others has a crowding of `window / c`,
//! so the window settles at `HEADROOM * c`: the service always has enough work, and is never flooded. A service that
//! takes any number has a crowding of 1, and is limited by the request rate or the hard cap.
//!
//! While interactive requests share the limiter the window aims at a crowding of [`INTERACTIVE_HEADROOM`]: they wait in
//! the service behind few others, and bulk requests still keep it busy.
//!
//! After a long time of crowding the window is narrowed for a moment to half of what the service seems to work on, and
//! the bases are measured again: otherwise a service that has become slower for other reasons would look crowded
//! permanently.

/// Initial width, and the least width under crowding: it keeps a small server busy and overloads none.
const START: f64 = 32.0;
/// Requests in flight for each one that the service works on. 2: one works, one waits.
const HEADROOM: f64 = 2.0;
/// Headroom while interactive requests share the limiter. Jitter and a slow tail alone look like 1.1 to 1.2.
const INTERACTIVE_HEADROOM: f64 = 1.3;
/// Least width under crowding while interactive requests share the limiter: small servers work on few requests at a
/// time.
const INTERACTIVE_LEAST: f64 = 4.0;
/// Bulk requests in flight while the bases are measured again for interactive requests.
const BULK_LEARNING: usize = 4;
/// Requests by which each answer widens the window at a crowding of 1: its speed.
const GAIN: f64 = 2.0;
/// Speed while interactive requests share the limiter: a narrow window that moved faster would oscillate.
const INTERACTIVE_GAIN: f64 = 0.5;
/// Crowding above which the bases are measured again ...
const CROWDED: f64 = 1.4;
/// ... after this number of seconds.
const DOUBT: f64 = 30.0;
/// Bounds of the number of answers that crowding is averaged over; between them half a window.
const AVERAGED: (f64, f64) = (16.0, 512.0);

/// See the module. Times are in seconds.
#[derive(Debug)]
pub(super) struct CongestionWindow {
    width: f64,
    most: f64,
    /// Averages of latency and base of those answers whose base is known.
    taken: f64,
    base: f64,
    /// Average latency of all answers; None before the first.
    latency: Option<f64>,
    doubted: f64,
    /// True while the bases are measured again.
    learning: bool,
}

impl CongestionWindow {
    pub(super) fn new(now: f64, most: usize) -> Self {
        let most = most.max(1) as f64;
        Self { width: START.min(most), most, taken: 0.0, base: 0.0, latency: None, doubted: now, learning: false }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and a number of requests")]
    pub(super) fn width(&self) -> usize {
        self.width as usize
    }

    /// Bulk requests that may be in flight: few while the bases are measured again for interactive requests.
    pub(super) fn bulk_width(&self, interactive: bool) -> usize {
        if interactive && self.learning { self.width().min(BULK_LEARNING) } else { self.width() }
    }

    pub(super) fn limit(&mut self, most: usize) {
        self.most = most.max(1) as f64;
        self.width = self.width.min(self.most).max(START.min(self.most));
    }

    /// Records that interactive requests begin to share the limiter. A service that works on fewer requests than the
    /// initial window was always crowded, so its bases are measured again.
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

    /// Records an answer after `latency`; `base` is that of its class, if known. `limiting`: requests wait for the
    /// window. Returns true when the bases are to be measured again, from requests that start now.
    pub(super) fn note_answer(
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
        // The window stays narrow while the bases are measured again.
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
