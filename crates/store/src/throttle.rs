//! Bandwidth: the one owner of the limit on object bytes per second.
//!
//! A [`ByteThrottle`] holds three byte queues at one rate. Requests enter the first with all their bytes before they
//! begin: at a low limit only a few of them are in flight, and each can finish. Bytes that are sent and bytes that are
//! received enter the second and the third piece by piece as they pass.
//!
//! A queue drains at the rate. The next waiter enters when the queue is empty: the first byte after a pause costs no
//! wait, and a waiter that gives up leaves no bytes in the queue. The queue is counted in bytes, not in time, so a
//! change of the rate also changes present waits.
//!
//! **Priorities.** Interactive bytes wait for interactive bytes alone; bulk bytes wait for all. While bulk bytes wait,
//! interactive bytes drain at three quarters of the rate, so that bulk work keeps a quarter.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::priority::{BULK_SHARE, Priority, PriorityMap};

/// Shortest wait in seconds: a shorter one, rounded to the clock's ticks, would never end.
const MIN_WAIT: f64 = 1e-6;
/// Largest delay in seconds of a timer that is made up for immediately: otherwise many small requests, each of which
/// waits for less than a tick, would be slower than the limit.
const MAX_CATCH_UP: f64 = 0.05;
/// Longest single wait in seconds: longer times, which may exceed the clock's range, are reached in steps.
const MAX_SLEEP: f64 = 3600.0;
/// Pieces into which the bytes of one second are divided, within the bounds below in bytes.
const PIECES: u64 = 50;
const SMALLEST_PIECE: u64 = 4 << 10;
const LARGEST_PIECE: u64 = 1 << 20;
/// Factor of time that is allowed for bytes under a limit, since other requests share it.
const SHARING_FACTOR: f64 = 4.0;

/// Bytes that pass one after another at a rate.
#[derive(Debug)]
struct ByteQueue {
    state: Mutex<State>,
    /// Lock held by the next waiter of each priority: waiters of one priority enter in their order.
    queue_locks: PriorityMap<tokio::sync::Mutex<()>>,
    /// Notifies waiters that the rate has changed.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// Bytes per second; None without a limit.
    rate: Option<u64>,
    /// Bytes that had not passed at `updated_at` and that this priority waits for: interactive bytes count for both. A
    /// negative value may pass now, since earlier waiters were woken late.
    backlog: PriorityMap<f64>,
    updated_at: Instant,
    waiting: PriorityMap<usize>,
}

impl State {
    /// Bytes per second at which the backlog of this priority drains.
    fn drain(&self, priority: Priority, rate: u64) -> f64 {
        let share = if priority == Priority::Interactive && self.waiting[Priority::Bulk] > 0 {
            (BULK_SHARE - 1) as f64 / BULK_SHARE as f64
        } else {
            1.0
        };
        share * rate as f64
    }

    /// Subtracts the bytes that have passed since the last update.
    fn advance(&mut self, now: Instant) {
        let seconds = (now - self.updated_at).as_secs_f64();
        self.updated_at = now;
        for priority in Priority::ALL {
            let backlog = self.backlog[priority];
            self.backlog[priority] = self.rate.map_or(0.0, |rate| {
                let late = -MAX_CATCH_UP * rate as f64;
                let least = if self.waiting[priority] > 0 { late } else { backlog.min(0.0) };
                (backlog - seconds * self.drain(priority, rate)).max(least)
            });
        }
    }

    fn enter(&mut self, priority: Priority, bytes: u64) {
        self.backlog[Priority::Bulk] += bytes as f64;
        if priority == Priority::Interactive {
            self.backlog[Priority::Interactive] += bytes as f64;
        }
    }
}

/// Counts a waiter for as long as it waits.
struct CountedWaiter<'a> {
    queue: &'a ByteQueue,
    priority: Priority,
}

impl<'a> CountedWaiter<'a> {
    fn new(queue: &'a ByteQueue, priority: Priority) -> Self {
        let mut state = queue.state();
        state.advance(Instant::now());
        state.waiting[priority] += 1;
        drop(state);
        Self { queue, priority }
    }
}

impl Drop for CountedWaiter<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.advance(Instant::now());
        state.waiting[self.priority] -= 1;
    }
}

/// Converts a limit from the settings, in which 0 means no limit.
fn parse_rate(per_second: Option<u64>) -> Option<u64> {
    per_second.filter(|rate| *rate > 0)
}

impl ByteQueue {
    fn new(per_second: Option<u64>, now: Instant) -> Self {
        let state = State {
            rate: parse_rate(per_second),
            backlog: PriorityMap::default(),
            updated_at: now,
            waiting: PriorityMap::default(),
        };
        Self { state: Mutex::new(state), queue_locks: PriorityMap::default(), changed: Notify::new() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rate(&self) -> Option<u64> {
        self.state().rate
    }

    /// Sets the limit; waiters follow the new one.
    fn set_rate(&self, per_second: Option<u64>) {
        {
            let mut state = self.state();
            state.advance(Instant::now());
            state.rate = parse_rate(per_second);
        }
        self.changed.notify_waiters();
    }

    /// Waits until `bytes` may pass.
    async fn wait_for(&self, priority: Priority, bytes: u64) {
        if self.rate().is_none() {
            return;
        }
        let _next = self.queue_locks[priority].lock().await;
        let mut waits = None;
        loop {
            // The notification is registered before the check, so that no change is missed between both.
            let changed = self.changed.notified();
            let wait = {
                let mut state = self.state();
                state.advance(Instant::now());
                let Some(rate) = state.rate else { return };
                let wait = state.backlog[priority] / state.drain(priority, rate);
                if wait < MIN_WAIT {
                    state.enter(priority, bytes);
                    return;
                }
                wait
            };
            waits.get_or_insert_with(|| CountedWaiter::new(self, priority));
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs_f64(wait.min(MAX_SLEEP))) => {}
                () = changed => {}
            }
        }
    }
}

/// A limit on bytes per second, for the requests of one priority. See the module.
#[derive(Debug, Clone)]
pub struct ByteThrottle {
    queues: Arc<Queues>,
    priority: Priority,
}

#[derive(Debug)]
struct Queues {
    /// Requests before they begin.
    admission: ByteQueue,
    sent: ByteQueue,
    received: ByteQueue,
}

impl Queues {
    fn all(&self) -> [&ByteQueue; 3] {
        [&self.admission, &self.sent, &self.received]
    }
}

/// The default has no limit.
impl Default for ByteThrottle {
    fn default() -> Self {
        Self::new(None, Instant::now())
    }
}

impl ByteThrottle {
    /// A limit of bytes per second; None: none.
    pub fn new(per_second: Option<u64>, now: Instant) -> Self {
        let queue = || ByteQueue::new(per_second, now);
        let queues = Queues { admission: queue(), sent: queue(), received: queue() };
        Self { queues: Arc::new(queues), priority: Priority::Bulk }
    }

    /// The same limit for requests of this priority.
    #[must_use]
    pub fn with_priority(&self, priority: Priority) -> Self {
        Self { queues: Arc::clone(&self.queues), priority }
    }

    /// Sets the limit, also for present waiters.
    pub fn set_rate(&self, per_second: Option<u64>) {
        self.queues.all().into_iter().for_each(|queue| queue.set_rate(per_second));
    }

    /// Bytes per second; None without a limit.
    pub fn rate(&self) -> Option<u64> {
        self.queues.admission.rate()
    }

    /// Waits until a request that moves `bytes` may begin.
    pub async fn admit(&self, bytes: u64) {
        self.queues.admission.wait_for(self.priority, bytes).await;
    }

    /// Number of bytes that may pass now; None without a limit.
    pub(crate) fn max_piece(&self) -> Option<usize> {
        let piece = (self.rate()? / PIECES).clamp(SMALLEST_PIECE, LARGEST_PIECE);
        Some(usize::try_from(piece).unwrap_or(usize::MAX))
    }

    /// Waits until `bytes` may be sent.
    pub(crate) async fn send(&self, bytes: usize) {
        self.queues.sent.wait_for(self.priority, bytes as u64).await;
    }

    /// Waits until earlier received bytes have passed, then count `bytes` more.
    pub(crate) async fn receive(&self, bytes: usize) {
        self.queues.received.wait_for(self.priority, bytes as u64).await;
    }

    /// Time that the present limit may add to the sending of `bytes`; zero without a limit.
    pub(crate) fn extra_time(&self, bytes: u64) -> Duration {
        let seconds = self.rate().map_or(0.0, |rate| SHARING_FACTOR * bytes as f64 / rate as f64);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;

    use super::*;

    fn limited(per_second: u64) -> Arc<ByteQueue> {
        Arc::new(ByteQueue::new(Some(per_second), Instant::now()))
    }

    /// Passes bytes in a task that returns their wait in milliseconds.
    fn pass(queue: &Arc<ByteQueue>, bytes: u64) -> JoinHandle<u128> {
        let (queue, start) = (Arc::clone(queue), Instant::now());
        tokio::spawn(async move {
            queue.wait_for(Priority::Bulk, bytes).await;
            start.elapsed().as_millis()
        })
    }

    async fn after(seconds: f64) {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_pass_in_their_order_at_the_rate() {
        let queue = limited(1000);

        let waited = [pass(&queue, 500), pass(&queue, 2000), pass(&queue, 1), pass(&queue, 0)];

        let waited = futures::future::join_all(waited).await;
        assert_eq!(waited.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [0, 500, 2500, 2501]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_is_not_saved_up() {
        let queue = limited(1000);
        pass(&queue, 1000).await.unwrap();
        after(100.0).await;

        assert_eq!(pass(&queue, 1000).await.unwrap(), 0);
        assert_eq!(pass(&queue, 1).await.unwrap(), 1000);
    }

    #[tokio::test(start_paused = true)]
    async fn many_small_ones_pass_at_the_rate_though_each_waits_for_less_than_a_tick() {
        let queue = limited(1_000_000);

        // 0.1 ms each; a clock with a resolution of a millisecond wakes them ten times too late.
        let start = Instant::now();
        for _ in 0..10_000 {
            queue.wait_for(Priority::Bulk, 100).await;
        }

        let took = start.elapsed().as_secs_f64();
        assert!((0.95..1.01).contains(&took), "{took}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_leaves_nothing_in_the_line() {
        let queue = limited(1000);
        let waiting = [pass(&queue, 1000), pass(&queue, 1_000_000), pass(&queue, 1_000_000)];
        after(0.5).await;
        let last = pass(&queue, 1);
        waiting[1].abort();
        waiting[2].abort();

        assert_eq!(last.await.unwrap(), 500);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_woken_when_the_limit_is_lifted() {
        for lifted in [None, Some(0)] {
            let queue = limited(1);
            let waiting = [pass(&queue, 1_000_000), pass(&queue, 1_000_000), pass(&queue, 1)];
            after(3.0).await;

            queue.set_rate(lifted);

            let waited = futures::future::join_all(waiting).await;
            assert_eq!(waited.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [0, 3000, 3000]);
            assert_eq!(queue.rate(), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_higher_limit_lets_those_go_earlier_that_wait() {
        let queue = limited(1000);
        let waiting = [pass(&queue, 10_000), pass(&queue, 10_000), pass(&queue, 1)];
        after(4.0).await;

        // 6,000 bytes are left of the first, and take 0.6 s now.
        queue.set_rate(Some(10_000));

        let waited = futures::future::join_all(waiting).await;
        assert_eq!(waited.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [0, 4600, 5600]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lower_limit_holds_for_those_too_that_wait() {
        let queue = limited(1000);
        let waiting = [pass(&queue, 1000), pass(&queue, 1000), pass(&queue, 1)];
        after(0.5).await;

        queue.set_rate(Some(100));

        let waited = futures::future::join_all(waiting).await;
        assert_eq!(waited.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [0, 5500, 15_500]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_owed_for_what_passed_without_a_limit() {
        let queue = limited(1);
        let waiting = [pass(&queue, 1_000_000), pass(&queue, 1)];
        after(1.0).await;
        queue.set_rate(None);
        assert_eq!(pass(&queue, 1 << 40).await.unwrap(), 0);

        queue.set_rate(Some(1000));

        assert_eq!(pass(&queue, 1000).await.unwrap(), 0);
        for waiting in waiting {
            assert!(waiting.await.unwrap() <= 1000);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_a_clock_can_tell_is_waited_for_until_the_limit_is_lifted() {
        let queue = limited(1);
        pass(&queue, u64::MAX).await.unwrap();
        let waiting = pass(&queue, 1);
        after(20_000.0).await;
        assert!(!waiting.is_finished());

        queue.set_rate(None);

        assert_eq!(waiting.await.unwrap(), 20_000_000);
    }

    #[tokio::test(start_paused = true)]
    async fn interactive_bytes_wait_for_no_bulk_bytes() {
        let queue = limited(1000);
        let bulk = [pass(&queue, 100_000), pass(&queue, 100_000), pass(&queue, 1)];
        after(1.0).await;

        let read = async |bytes| {
            let start = Instant::now();
            queue.wait_for(Priority::Interactive, bytes).await;
            start.elapsed().as_millis()
        };
        assert_eq!(read(750).await, 0);
        // At three quarters of the rate.
        assert_eq!(read(750).await, 1000);
        after(1.0).await;
        assert_eq!(read(0).await, 0);

        // Bulk bytes wait for all of them: the limit is held.
        let waited = futures::future::join_all(bulk).await;
        assert_eq!(waited.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [0, 101_500, 201_500]);
    }

    #[tokio::test(start_paused = true)]
    async fn bulk_bytes_keep_a_quarter_however_many_interactive_bytes_wait() {
        let queue = limited(1_000_000);
        let passed = Arc::new(Mutex::new(PriorityMap::<u64>::default()));
        let start = Instant::now();
        let workers: Vec<_> = [Priority::Interactive, Priority::Bulk]
            .into_iter()
            .flat_map(|priority| std::iter::repeat_n(priority, 8))
            .map(|priority| {
                let (queue, passed) = (Arc::clone(&queue), Arc::clone(&passed));
                tokio::spawn(async move {
                    while start.elapsed() < Duration::from_secs(20) {
                        queue.wait_for(priority, 10_000).await;
                        passed.lock().unwrap()[priority] += 10_000;
                    }
                })
            })
            .collect();

        futures::future::join_all(workers).await;

        let passed = *passed.lock().unwrap();
        let rate = |priority| passed[priority] as f64 / 20e6;
        assert!((0.23..0.28).contains(&rate(Priority::Bulk)), "{passed:?}");
        assert!((0.73..0.78).contains(&rate(Priority::Interactive)), "{passed:?}");
    }
}
