//! The memory for object bytes, reserved before it is used.
//!
//! Each priority waits in a queue of its own, so that a large bulk part never stands before a small interactive read.
//! While interactive work is present, bulk work leaves it [`reserve`] bytes; while bulk work waits, interactive work
//! leaves it [`share`] bytes. Reservations of one priority are served in their order.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seqferry_store::priority::{BULK_SHARE, Priority, PriorityMap};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::priority_shares::PriorityShares;
use super::stats::LatencyHistogram;

/// Divisor of the reserve: bulk work leaves 1/4 to interactive work that is present ...
const RESERVED_PART: u64 = 4;
/// ... up to this many bytes: 512 reads of 128 KiB.
const LARGEST_RESERVE: u64 = 64 << 20;

/// Bytes that bulk work leaves to interactive work.
fn reserve(total: u64) -> u64 {
    (total / RESERVED_PART).min(LARGEST_RESERVE)
}

/// Bytes that interactive work leaves to bulk work that waits.
fn share(total: u64) -> u64 {
    total / BULK_SHARE
}

/// Reserved buffer bytes; given back on drop.
#[derive(Debug)]
pub struct MemoryPermit {
    pool: Arc<MemoryPool>,
    priority: Priority,
    bytes: u64,
    /// False for a permit that could not be handed over and was taken back.
    held: bool,
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        if self.held {
            let mut state = self.pool.lock();
            state.shares.give_back(self.priority, self.bytes);
            self.pool.serve(&mut state);
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct MemoryPool {
    total: u64,
    state: Mutex<MemoryState>,
}

#[derive(Debug, Default)]
struct MemoryState {
    shares: PriorityShares,
    waiting: PriorityMap<VecDeque<MemoryWaiter>>,
    interactive_present: bool,
    waits: PriorityMap<LatencyHistogram>,
}

#[derive(Debug)]
struct MemoryWaiter {
    bytes: u64,
    since: Instant,
    wake: oneshot::Sender<MemoryPermit>,
}

/// Serves the waiters behind one that gave up.
struct WaiterGuard<'a> {
    pool: &'a Arc<MemoryPool>,
    waits: bool,
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        if self.waits {
            let mut state = self.pool.lock();
            state.forget_gone();
            self.pool.serve(&mut state);
        }
    }
}

impl MemoryPool {
    /// A pool of `total` bytes.
    pub(super) fn new(total: u64) -> Arc<Self> {
        Arc::new(Self { total: total.max(1), state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn reserved(&self) -> u64 {
        self.lock().shares.total()
    }

    /// Waits of a priority's reservations.
    pub(super) fn waits(&self, priority: Priority) -> LatencyHistogram {
        self.lock().waits[priority]
    }

    /// Turns the reserve for interactive work on or off.
    pub(super) fn set_interactive_present(self: &Arc<Self>, present: bool) {
        let mut state = self.lock();
        state.interactive_present = present;
        self.serve(&mut state);
    }

    /// Wait for `bytes`. A request above the priority's maximum is reduced to it.
    pub(super) async fn reserve(self: &Arc<Self>, priority: Priority, bytes: u64) -> MemoryPermit {
        loop {
            let (wake, woken) = oneshot::channel();
            {
                let mut state = self.lock();
                state.waiting[priority].push_back(MemoryWaiter { bytes, since: Instant::now(), wake });
                self.serve(&mut state);
            }
            // Declared before `woken` is moved into the await, so that the sender is closed when this is dropped.
            let mut place = WaiterGuard { pool: self, waits: true };
            let permit = woken.await;
            place.waits = false;
            // A sender leaves the queue unused only when its receiver is gone.
            if let Ok(permit) = permit {
                return permit;
            }
        }
    }

    /// Serve every waiter that fits now.
    fn serve(self: &Arc<Self>, state: &mut MemoryState) {
        while let Some((priority, bytes)) = state.next(self.total) {
            let Some(waiter) = state.waiting[priority].pop_front() else { return };
            let permit = MemoryPermit { pool: Arc::clone(self), priority, bytes, held: true };
            match waiter.wake.send(permit) {
                Ok(()) => {
                    let bulk_waits = !state.waiting[Priority::Bulk].is_empty();
                    state.shares.grant(priority, bytes, bulk_waits);
                    state.waits[priority].count(waiter.since.elapsed());
                }
                // The waiter is gone. A drop of the permit as it is would take the lock again.
                Err(mut permit) => permit.held = false,
            }
        }
    }
}

impl MemoryState {
    fn forget_gone(&mut self) {
        for priority in Priority::ALL {
            self.waiting[priority].retain(|waiter| !waiter.wake.is_closed());
        }
    }

    /// The waiter that is served next, and its bytes.
    fn next(&self, total: u64) -> Option<(Priority, u64)> {
        let reserve = if self.interactive_present { reserve(total) } else { 0 };
        let first = |priority: Priority, most: u64| {
            self.waiting[priority].front().map(|waiter| (priority, waiter.bytes.clamp(1, most.max(1))))
        };
        let interactive = first(Priority::Interactive, total);
        let bulk = first(Priority::Bulk, total - reserve);
        // Bulk work that waits for bytes held by interactive work has its turn in the end. Bulk work that waits for
        // other bulk work delays no other waiter.
        let bulk_turn = bulk
            .filter(|(_, bytes)| self.shares.owes_bulk(*bytes) && self.shares.is_below_reserve(*bytes, total, reserve));
        // While bulk work waits, interactive work leaves it its share.
        let limited =
            |bytes: u64| bulk.is_some() && self.shares.used(Priority::Interactive) + bytes > total - share(total);
        let interactive = interactive.filter(|(_, bytes)| !limited(*bytes));
        let (priority, bytes) = bulk_turn.or(interactive).or(bulk)?;
        self.shares.has_room(priority, bytes, total, reserve).then_some((priority, bytes))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn pool(total: u64) -> Arc<MemoryPool> {
        let pool = MemoryPool::new(total);
        pool.set_interactive_present(true);
        pool
    }

    fn at_once(pool: &Arc<MemoryPool>, priority: Priority, bytes: u64) -> Option<MemoryPermit> {
        pool.reserve(priority, bytes).now_or_never()
    }

    #[test]
    fn a_part_that_waits_does_not_stand_before_a_small_read() {
        let pool = pool(256 * MIB);
        let held: Vec<_> = (0..3).map(|_| at_once(&pool, Priority::Bulk, 64 * MIB).expect("room")).collect();
        let mut part = Box::pin(pool.reserve(Priority::Bulk, 64 * MIB));
        assert!((&mut part).now_or_never().is_none());

        let reads: Vec<_> = (0..512).map_while(|_| at_once(&pool, Priority::Interactive, 128 << 10)).collect();

        assert_eq!(reads.len(), 512);
        assert_eq!(pool.reserved(), 256 * MIB);
        drop((reads, held));
        assert!(part.now_or_never().is_some());
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn a_read_that_waits_is_served_before_parts_that_came_earlier() {
        let pool = MemoryPool::new(64 * MIB);
        let held = at_once(&pool, Priority::Bulk, 64 * MIB);
        let mut part = Box::pin(pool.reserve(Priority::Bulk, 64 * MIB));
        let mut read = Box::pin(pool.reserve(Priority::Interactive, MIB));
        assert!((&mut part).now_or_never().is_none() && (&mut read).now_or_never().is_none());

        drop(held);

        let read = read.now_or_never().expect("the read first");
        assert!((&mut part).now_or_never().is_none());
        drop(read);
        assert!(part.now_or_never().is_some());
    }

    #[test]
    fn parts_get_their_share_however_many_reads_wait() {
        let pool = pool(256 * MIB);
        let mut reads: VecDeque<_> = (0..256).map_while(|_| at_once(&pool, Priority::Interactive, MIB)).collect();
        assert_eq!(reads.len(), 256);
        let mut part = Box::pin(pool.reserve(Priority::Bulk, 64 * MIB));
        assert!((&mut part).now_or_never().is_none());

        // A quarter is left to the part as reads end; each of them is followed by the next one.
        let mut served = 0;
        let mut next = Box::pin(pool.reserve(Priority::Interactive, MIB));
        let part = loop {
            if let Some(part) = (&mut part).now_or_never() {
                break part;
            }
            drop(reads.pop_front());
            if let Some(read) = (&mut next).now_or_never() {
                served += 1;
                reads.push_back(read);
                next = Box::pin(pool.reserve(Priority::Interactive, MIB));
            }
        };

        assert_eq!(served, 0);
        assert_eq!(reads.len(), 192);
        drop(part);
    }

    #[test]
    fn a_part_larger_than_the_share_has_its_turn() {
        let pool = pool(256 * MIB);
        let mut reads: VecDeque<_> = (0..192).map_while(|_| at_once(&pool, Priority::Interactive, MIB)).collect();
        let mut part = Box::pin(pool.reserve(Priority::Bulk, 128 * MIB));
        assert!((&mut part).now_or_never().is_none());

        let mut served = 0;
        let mut next = Box::pin(pool.reserve(Priority::Interactive, MIB));
        while (&mut part).now_or_never().is_none() {
            drop(reads.pop_front());
            if let Some(read) = (&mut next).now_or_never() {
                served += 1;
                reads.push_back(read);
                next = Box::pin(pool.reserve(Priority::Interactive, MIB));
            }
        }

        assert_eq!(served, 3 * 128, "MiB of reads before a part of 128 MiB");
    }

    #[test]
    fn parts_that_wait_for_parts_never_hold_up_reads() {
        let pool = pool(256 * MIB);
        let _held = at_once(&pool, Priority::Bulk, 192 * MIB).expect("all that bulk work may have");
        let mut part = Box::pin(pool.reserve(Priority::Bulk, 64 * MIB));
        assert!((&mut part).now_or_never().is_none());

        for _ in 0..10_000 {
            assert!(at_once(&pool, Priority::Interactive, MIB).is_some());
        }
    }

    #[test]
    fn bulk_work_has_all_of_it_while_no_interactive_work_is_present() {
        let pool = pool(64 * MIB);
        pool.set_interactive_present(false);
        let all = at_once(&pool, Priority::Bulk, u64::MAX).expect("all");
        assert_eq!(pool.reserved(), 64 * MIB);

        pool.set_interactive_present(true);
        drop(all);

        let most = at_once(&pool, Priority::Bulk, u64::MAX).expect("what is not reserved");
        assert_eq!(pool.reserved(), 48 * MIB);
        drop(most);
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn a_waiter_that_gives_up_leaves_nothing_behind_and_lets_the_next_one_go() {
        let pool = MemoryPool::new(10);
        let held = at_once(&pool, Priority::Bulk, 6).expect("room");
        let mut large = Box::pin(pool.reserve(Priority::Bulk, 5));
        let mut small = Box::pin(pool.reserve(Priority::Bulk, 4));
        assert!((&mut large).now_or_never().is_none() && (&mut small).now_or_never().is_none());

        drop(large);

        assert!(small.now_or_never().is_some());
        drop(held);
        assert_eq!(pool.reserved(), 0);
        assert!(pool.lock().waiting[Priority::Bulk].is_empty());
    }
}
