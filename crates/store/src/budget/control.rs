//! How wide a bucket's gate is: a hill climber with a multiplicative cut.
//!
//! Requests are looked at in windows of about two gate-widths of them. At the end of a window the work done per second is
//! compared with what the narrower gate did: better by a tenth widens the gate by half, else it goes back to the
//! width that did as well, and tries again after some windows. A throttled answer cuts the gate to 0.7 at once (at most
//! once per window, since the answers of one burst come together), after which it widens by one request per window.
//! Work counts bytes and a fixed amount per request, so that small objects count too.

use std::time::Instant;

use super::Ended;

/// Where every gate starts: enough to keep a small server busy, too little to hurt one.
const START: usize = 32;
/// Below this a gate is never cut, so that it keeps seeing answers.
const FLOOR: usize = 4;
/// Work of a request besides its bytes: about what S3's fixed latency is worth at its per-request rate.
const REQUEST_WORK: u64 = 8 << 20;
/// A window ends after so many widths of requests.
const WINDOW: usize = 2;
/// More work per second by this factor is worth a wider gate.
const BETTER: f64 = 1.1;
/// Widening by.
const STEP: f64 = 1.5;
/// Cut on a throttled answer.
const CUT: f64 = 0.7;
/// Windows to stay before trying wider again.
const PATIENCE: u32 = 8;

/// State of one gate. Plain arithmetic over the times it is given.
#[derive(Debug)]
pub struct Control {
    width: usize,
    most: usize,
    window_start: Instant,
    window_requests: usize,
    window_work: u64,
    cut_in_window: bool,
    /// Set by the first cut: from then on the gate widens by ones.
    careful: bool,
    /// Width and work per second before the last widening.
    before: Option<(usize, f64)>,
    resting: u32,
}

impl Control {
    /// A fresh gate under a hard cap.
    pub fn new(now: Instant, most: usize) -> Self {
        Self {
            width: START.min(most).max(1),
            most,
            window_start: now,
            window_requests: 0,
            window_work: 0,
            cut_in_window: false,
            careful: false,
            before: None,
            resting: 0,
        }
    }

    /// Requests that may be in flight.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Set the hard cap; returns the width under it.
    pub fn limit(&mut self, most: usize) -> usize {
        self.most = most;
        self.width = self.width.min(most).max(START.min(most)).max(1);
        self.width
    }

    /// A request has ended. Returns the new width when it changes.
    pub fn ended(&mut self, now: Instant, how: Ended) -> Option<usize> {
        let old = self.width;
        self.window_requests += 1;
        match how {
            Ended::Worked(bytes) => self.window_work += bytes + REQUEST_WORK,
            Ended::Throttled if !self.cut_in_window => {
                self.width = scaled(self.width, CUT).max(FLOOR.min(self.most)).max(1);
                (self.cut_in_window, self.careful, self.before) = (true, true, None);
            }
            Ended::Throttled | Ended::Failed => {}
        }
        if self.window_requests >= self.width * WINDOW {
            self.close_window(now);
        }
        (self.width != old).then_some(self.width)
    }

    fn close_window(&mut self, now: Instant) {
        let elapsed = now.duration_since(self.window_start).as_secs_f64().max(1e-6);
        let rate = self.window_work as f64 / elapsed;
        if !self.cut_in_window {
            self.decide(rate);
        }
        (self.window_start, self.window_requests, self.window_work) = (now, 0, 0);
        self.cut_in_window = false;
    }

    fn decide(&mut self, rate: f64) {
        if self.careful {
            self.width = (self.width + 1).min(self.most);
            return;
        }
        if let Some((width, work)) = self.before.take()
            && rate < work * BETTER
        {
            self.width = width;
            self.resting = PATIENCE;
            return;
        }
        if self.resting > 0 {
            self.resting -= 1;
            return;
        }
        let wider = scaled(self.width, STEP).min(self.most);
        if wider > self.width {
            self.before = Some((self.width, rate));
            self.width = wider;
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "widths are small and never negative")]
fn scaled(width: usize, factor: f64) -> usize {
    (width as f64 * factor) as usize
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A service that does `per_request` of work per second in each request, up to `capacity` requests at a time.
    fn run(control: &mut Control, capacity: usize, throttles: bool, requests: usize) -> (usize, usize) {
        let mut now = Instant::now();
        let mut refused = 0;
        let mut widest = 0;
        for _ in 0..requests {
            let width = control.width();
            widest = widest.max(width);
            // One request ends each `latency / width`; beyond the capacity they queue (or are turned down).
            let useful = width.min(capacity);
            now += Duration::from_secs_f64(1.0 / useful as f64);
            let over = throttles && width > capacity;
            // Of the requests that come to an end, those beyond the capacity are turned down.
            let turned_down = over && (control.window_requests % width) >= capacity;
            refused += usize::from(turned_down);
            control.ended(now, if turned_down { Ended::Throttled } else { Ended::Worked(100 << 20) });
        }
        (refused, widest)
    }

    #[test]
    fn starts_modest_and_widens_while_that_brings_more() {
        let mut control = Control::new(Instant::now(), 1000);
        assert_eq!(control.width(), START);

        run(&mut control, usize::MAX, false, 20_000);

        assert_eq!(control.width(), 1000);
    }

    #[test]
    fn stays_near_what_the_service_can_do_when_it_only_queues() {
        let mut control = Control::new(Instant::now(), 10_000);

        let (_, widest) = run(&mut control, 200, false, 50_000);

        assert!((150..=400).contains(&control.width()), "{}", control.width());
        assert!(widest <= 500, "{widest}");
    }

    #[test]
    fn a_service_that_turns_requests_down_is_asked_for_less() {
        let mut control = Control::new(Instant::now(), 10_000);

        let (throttled, _) = run(&mut control, 100, true, 50_000);

        assert!((60..=110).contains(&control.width()), "{}", control.width());
        assert!(throttled < 50_000 / 50, "{throttled} of 50000 were turned down");
    }

    #[test]
    fn one_burst_of_throttled_answers_cuts_once() {
        let mut control = Control::new(Instant::now(), 1000);
        let now = Instant::now();

        for _ in 0..20 {
            control.ended(now, Ended::Throttled);
        }

        assert_eq!(control.width(), 22);
    }

    #[test]
    fn never_above_the_cap_nor_below_one() {
        for most in [1, 2, 3, 5] {
            let mut control = Control::new(Instant::now(), most);
            let now = Instant::now();
            for round in 0..100 {
                control.ended(now, if round % 3 == 0 { Ended::Throttled } else { Ended::Worked(1) });
                assert!((1..=most).contains(&control.width()));
            }
        }
    }
}
