//! How many bytes may pass per second.
//!
//! All that pass stand in one line, which goes out at the rate that holds. Whoever is the next to join it waits until it has
//! gone out, so that the first byte after a rest costs no wait, and one who gives up has left nothing in it. The line is counted
//! in bytes and not in time: a rate that changes changes the wait.
//!
//! Requests stand in it with all their bytes before they begin, so that few of them are under way at a low limit and each comes to
//! its end. Those that have begun do not go as fast as they can: their bytes stand in line once more, piece by piece, where they
//! pass ([`Pace`]).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// A wait that is so short is none: rounded to the clock's ticks it would never come to its end.
const INSTANT: f64 = 1e-6;
/// How much later than it was asked to a clock may wake somebody who waits, at most. What would have gone out meanwhile goes out
/// at once then: otherwise many small requests, each of which waits for less than a tick, would be slower than the limit.
const LATE: f64 = 0.05;
/// Nobody waits longer without looking again: times beyond what a clock can tell are reached in steps.
const LOOK: f64 = 3600.0;
/// What may pass in a second passes in so many pieces, of at least and at most so many bytes.
const PIECES: u64 = 50;
const SMALLEST_PIECE: u64 = 4 << 10;
const LARGEST_PIECE: u64 = 1 << 20;
/// Bytes under a limit may take so many times as long as they would by themselves: others pass meanwhile.
const BESIDE_OTHERS: f64 = 4.0;

/// See the module.
#[derive(Debug)]
pub(super) struct Bandwidth {
    line: Mutex<Line>,
    /// Of the next who may join the line: those who wait come in their order.
    turn: tokio::sync::Mutex<()>,
    /// The rate is another.
    changed: Notify,
}

#[derive(Debug)]
struct Line {
    /// Bytes per second; None without a limit.
    rate: Option<u64>,
    /// Bytes that had not gone out; below 0 so many may go out at once, since those who waited were woken late ...
    left: f64,
    /// ... at this time.
    seen: Instant,
}

impl Line {
    /// Let go out what has since. `waited`: somebody did, all the time.
    fn advance(&mut self, now: Instant, waited: bool) {
        self.left = match self.rate {
            Some(rate) => {
                let least = if waited { -LATE * rate as f64 } else { self.left.min(0.0) };
                (self.left - (now - self.seen).as_secs_f64() * rate as f64).max(least)
            }
            None => 0.0,
        };
        self.seen = now;
    }
}

/// 0 is given to lift the limit.
fn limit(per_second: Option<u64>) -> Option<u64> {
    per_second.filter(|rate| *rate > 0)
}

impl Bandwidth {
    pub(super) fn new(per_second: Option<u64>, now: Instant) -> Self {
        let line = Line { rate: limit(per_second), left: 0.0, seen: now };
        Self { line: Mutex::new(line), turn: tokio::sync::Mutex::default(), changed: Notify::new() }
    }

    fn line(&self) -> std::sync::MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes per second; None without a limit.
    pub(super) fn rate(&self) -> Option<u64> {
        self.line().rate
    }

    /// From now on, also for those who wait.
    pub(super) fn limit(&self, per_second: Option<u64>) {
        {
            let mut line = self.line();
            line.advance(Instant::now(), false);
            line.rate = limit(per_second);
        }
        self.changed.notify_waiters();
    }

    /// Wait until so many bytes may pass.
    pub(super) async fn pass(&self, bytes: u64) {
        if self.rate().is_none() {
            return;
        }
        let _turn = self.turn.lock().await;
        let mut waited = false;
        loop {
            // Before the look, so that no change is missed between both.
            let changed = self.changed.notified();
            let wait = {
                let mut line = self.line();
                line.advance(Instant::now(), waited);
                let Some(rate) = line.rate else { return };
                let wait = line.left / rate as f64;
                if wait < INSTANT {
                    line.left += bytes as f64;
                    return;
                }
                wait
            };
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs_f64(wait.min(LOOK))) => {}
                () = changed => {}
            }
            waited = true;
        }
    }
}

/// The limit of a [`Budget`](super::Budget) for bytes as they pass over connections, for each way by itself.
#[derive(Debug, Clone)]
pub struct Pace(Arc<[Bandwidth; 2]>);

/// No limit.
impl Default for Pace {
    fn default() -> Self {
        Self::new(None, Instant::now())
    }
}

impl Pace {
    pub(super) fn new(per_second: Option<u64>, now: Instant) -> Self {
        Self(Arc::new([Bandwidth::new(per_second, now), Bandwidth::new(per_second, now)]))
    }

    pub(super) fn limit(&self, per_second: Option<u64>) {
        self.0.iter().for_each(|way| way.limit(per_second));
    }

    /// How many bytes may pass at once; None without a limit.
    pub(crate) fn piece(&self) -> Option<usize> {
        let piece = (self.0[0].rate()? / PIECES).clamp(SMALLEST_PIECE, LARGEST_PIECE);
        Some(usize::try_from(piece).unwrap_or(usize::MAX))
    }

    /// Wait until so many bytes may be sent.
    pub(crate) async fn send(&self, bytes: usize) {
        self.0[0].pass(bytes as u64).await;
    }

    /// Wait until what was received before has passed, and count so many bytes more.
    pub(crate) async fn received(&self, bytes: usize) {
        self.0[1].pass(bytes as u64).await;
    }

    /// How much longer than without the limit that holds now it may take to send so many bytes.
    pub(crate) fn patience(&self, bytes: u64) -> Duration {
        let seconds = self.0[0].rate().map_or(0.0, |rate| BESIDE_OTHERS * bytes as f64 / rate as f64);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;

    use super::*;

    fn limited(per_second: u64) -> Arc<Bandwidth> {
        Arc::new(Bandwidth::new(Some(per_second), Instant::now()))
    }

    /// Ends with the time that the bytes had to wait, in milliseconds.
    fn pass(bandwidth: &Arc<Bandwidth>, bytes: u64) -> JoinHandle<u128> {
        let (bandwidth, start) = (Arc::clone(bandwidth), Instant::now());
        tokio::spawn(async move {
            bandwidth.pass(bytes).await;
            start.elapsed().as_millis()
        })
    }

    async fn after(seconds: f64) {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_pass_in_their_order_at_the_rate() {
        let bandwidth = limited(1000);

        let waited = [pass(&bandwidth, 500), pass(&bandwidth, 2000), pass(&bandwidth, 1), pass(&bandwidth, 0)];

        let waited = futures::future::join_all(waited).await;
        assert_eq!(waited.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [0, 500, 2500, 2501]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_is_not_saved_up() {
        let bandwidth = limited(1000);
        pass(&bandwidth, 1000).await.unwrap();
        after(100.0).await;

        assert_eq!(pass(&bandwidth, 1000).await.unwrap(), 0);
        assert_eq!(pass(&bandwidth, 1).await.unwrap(), 1000);
    }

    #[tokio::test(start_paused = true)]
    async fn many_small_ones_pass_at_the_rate_though_each_waits_for_less_than_a_tick() {
        let bandwidth = limited(1_000_000);

        // 0.1 ms each; a clock that tells whole milliseconds wakes them ten times too late.
        let start = Instant::now();
        for _ in 0..10_000 {
            bandwidth.pass(100).await;
        }

        let took = start.elapsed().as_secs_f64();
        assert!((0.95..1.01).contains(&took), "{took}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_leaves_nothing_in_the_line() {
        let bandwidth = limited(1000);
        let waiting = [pass(&bandwidth, 1000), pass(&bandwidth, 1_000_000), pass(&bandwidth, 1_000_000)];
        after(0.5).await;
        let last = pass(&bandwidth, 1);
        waiting[1].abort();
        waiting[2].abort();

        assert_eq!(last.await.unwrap(), 500);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_woken_when_the_limit_is_lifted() {
        for lifted in [None, Some(0)] {
            let bandwidth = limited(1);
            let waiting = [pass(&bandwidth, 1_000_000), pass(&bandwidth, 1_000_000), pass(&bandwidth, 1)];
            after(3.0).await;

            bandwidth.limit(lifted);

            let waited = futures::future::join_all(waiting).await;
            assert_eq!(waited.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [0, 3000, 3000]);
            assert_eq!(bandwidth.rate(), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_higher_limit_lets_those_go_earlier_that_wait() {
        let bandwidth = limited(1000);
        let waiting = [pass(&bandwidth, 10_000), pass(&bandwidth, 10_000), pass(&bandwidth, 1)];
        after(4.0).await;

        // 6,000 bytes are left of the first, and take 0.6 s now.
        bandwidth.limit(Some(10_000));

        let waited = futures::future::join_all(waiting).await;
        assert_eq!(waited.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [0, 4600, 5600]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lower_limit_holds_for_those_too_that_wait() {
        let bandwidth = limited(1000);
        let waiting = [pass(&bandwidth, 1000), pass(&bandwidth, 1000), pass(&bandwidth, 1)];
        after(0.5).await;

        bandwidth.limit(Some(100));

        let waited = futures::future::join_all(waiting).await;
        assert_eq!(waited.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [0, 5500, 15_500]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_owed_for_what_passed_without_a_limit() {
        let bandwidth = limited(1);
        let waiting = [pass(&bandwidth, 1_000_000), pass(&bandwidth, 1)];
        after(1.0).await;
        bandwidth.limit(None);
        assert_eq!(pass(&bandwidth, 1 << 40).await.unwrap(), 0);

        bandwidth.limit(Some(1000));

        assert_eq!(pass(&bandwidth, 1000).await.unwrap(), 0);
        for waiting in waiting {
            assert!(waiting.await.unwrap() <= 1000);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_a_clock_can_tell_is_waited_for_until_the_limit_is_lifted() {
        let bandwidth = limited(1);
        pass(&bandwidth, u64::MAX).await.unwrap();
        let waiting = pass(&bandwidth, 1);
        after(20_000.0).await;
        assert!(!waiting.is_finished());

        bandwidth.limit(None);

        assert_eq!(waiting.await.unwrap(), 20_000_000);
    }
}
