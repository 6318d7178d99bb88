//! Random reads: how much to fetch around a read that misses, on a link that carries it while the read waits.
//!
//! A miss costs a latency whatever its size. What the link carries in that time costs no more time than the miss, and
//! spares the misses near it. So a file whose reads keep missing at places of their own is fetched in larger and larger
//! parts around them: `rate x latency` bytes for each miss. That is done only
//!
//! - on a fast link: at [`FAST`] bytes per second or more as measured, and as the user allows. Slower links, and paid
//!   ones, carry what the reads need and nothing else,
//! - as long as it is useful: at most [`ALLOWANCE`] bytes, and [`PER_USED_BLOCK`] for each block that proved useful.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::ahead::AheadUse;
use crate::in_flight::FetchGuard;
use crate::link::Link;
use crate::version::BLOCK_SIZE;

/// Rate of a fast link in bytes per second: more than a line of 1 Gbit/s has.
pub(super) const FAST: f64 = 200e6;
/// Misses of an open file before anything is fetched around one: a program that seeks a few times ends here.
pub(super) const FEW: u32 = 16;
/// Bytes fetched around one miss to measure a link whose rate is not known: one sample.
pub(super) const PROBE: u64 = crate::link::SAMPLE;
/// Bytes fetched around misses of an open file before any of them is used: in a file of 1 GiB that is read evenly, one of
/// a few dozen reads finds some of them.
pub(super) const ALLOWANCE: u64 = 192 << 20;
/// Bytes that each useful block allows: 128 blocks for one.
pub(super) const PER_USED_BLOCK: u64 = 128 * BLOCK_SIZE;
/// Part of what is allowed that is fetched around one miss: the parts shrink as long as none is used.
const PART: u64 = 8;
/// Bytes fetched around one miss, at most ...
pub(super) const LONGEST: u64 = 16 << 20;
/// ... and at least: less gains nothing.
pub(super) const SHORTEST: u64 = 1 << 20;

/// Bytes of one request, at least: it costs CPU and money.
const SHORTEST_RANGE: u64 = 512 << 10;
/// Requests for what is fetched around one miss, of 4 MiB each at most.
const RANGES: u64 = 4;
/// Fetches that are held: those of four misses.
const HELD: usize = 32;

/// Random reads of an open file so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RandomReadUse {
    /// Reads that missed at places of their own.
    pub(super) misses: u32,
    /// Bytes fetched around them.
    pub(super) fetched: u64,
    /// Blocks of these that are no longer in the pool, where their use could be seen: the kernel has them.
    pub(super) handed_over: u64,
    /// Blocks of these that were read from the pool.
    pub(super) used: u64,
}

impl RandomReadUse {
    /// Blocks that proved useful: those read from the pool stand for as many of those that were handed over.
    fn useful(&self) -> u64 {
        let in_pool = self.fetched.saturating_sub(self.handed_over * BLOCK_SIZE).max(BLOCK_SIZE);
        let share = (self.fetched / in_pool).clamp(1, 8);
        self.used * share
    }

    /// Bytes that may still be fetched around misses.
    fn allowed(&self) -> u64 {
        (ALLOWANCE + PER_USED_BLOCK * self.useful()).saturating_sub(self.fetched)
    }
}

/// Bytes to fetch around a read that has just missed; 0 for none besides its own blocks.
pub(super) fn bytes_around(link: Link, reads: RandomReadUse) -> u64 {
    if reads.misses < FEW || link.limit.is_some_and(|limit| (limit as f64) < FAST) {
        return 0;
    }
    let part = reads.allowed() / PART;
    let length = match link.rate {
        // Not measured: once for an open file, where a fast link would be of use.
        None if reads.fetched == 0 && carried(FAST, link.latency) >= SHORTEST => PROBE.min(part),
        Some(rate) if rate >= FAST => {
            let rate = link.limit.map_or(rate, |limit| rate.min(limit as f64));
            carried(rate, link.latency).min(part).min(LONGEST)
        }
        _ => 0,
    };
    if length < SHORTEST { 0 } else { length }
}

/// The random reads of an open file, with what was fetched around them.
#[derive(Debug, Default)]
pub(super) struct RandomReads {
    misses: u32,
    fetched: u64,
    ahead_use: Arc<AheadUse>,
    guards: Vec<FetchGuard>,
}

impl RandomReads {
    /// No reads yet, of an inode whose pages an interface can keep.
    pub(super) fn with_pages(inode: u64) -> Self {
        Self { ahead_use: AheadUse::with_pages(Some(inode)), ..Self::default() }
    }

    /// A read of these blocks has missed. Returns the bytes to fetch around it.
    pub(super) fn miss(&mut self, link: Link, wanted: &Range<u64>) -> u64 {
        self.misses += 1;
        let handed_over = {
            // What the kernel asks for it does not have any more.
            let mut handed_over = self.ahead_use.handed_over();
            for block in wanted.clone() {
                handed_over.remove(&block);
            }
            handed_over.len() as u64
        };
        let RandomReads { misses, fetched, .. } = *self;
        bytes_around(link, RandomReadUse { misses, fetched, handed_over, used: self.ahead_use.used() })
    }

    /// The blocks around those of a read, up to this many bytes, that are neither there nor kept by the interface.
    pub(super) fn window(
        &self,
        wanted: &Range<u64>,
        length: u64,
        blocks: u64,
        is_there: impl Fn(u64) -> bool,
    ) -> Range<u64> {
        let handed_over = self.ahead_use.handed_over();
        let is_missing = |block: &u64| !is_there(*block) && !handed_over.contains(block);
        let most = length / BLOCK_SIZE;
        let behind = (wanted.end..blocks.min(wanted.end + most)).take_while(is_missing).count() as u64;
        let before = (wanted.start.saturating_sub(most)..wanted.start).rev().take_while(is_missing).count() as u64;
        let after = behind.min((most / 2).max(most - before.min(most)));
        wanted.start - before.min(most - after)..wanted.end + after
    }

    pub(super) fn ahead_use(&self) -> &Arc<AheadUse> {
        &self.ahead_use
    }

    /// These fetches have begun; they continue while they are held here.
    pub(super) fn hold(&mut self, blocks: u64, guards: Vec<FetchGuard>) {
        self.fetched += blocks * BLOCK_SIZE;
        self.guards.extend(guards);
        let surplus = self.guards.len().saturating_sub(HELD);
        self.guards.drain(..surplus);
    }
}

/// The requests for a window around a read, which has one of its own.
pub(super) fn ranges(window: &Range<u64>, wanted: &Range<u64>, length: u64) -> Vec<Range<u64>> {
    let step = (length / RANGES).clamp(SHORTEST_RANGE, LONGEST / RANGES) / BLOCK_SIZE;
    let parts = [window.start..wanted.start, wanted.end..window.end];
    let cut = |part: Range<u64>| {
        let end = part.end;
        part.step_by(usize::try_from(step).unwrap_or(1)).map(move |first| first..end.min(first + step))
    };
    parts.into_iter().flat_map(cut).collect()
}

/// Bytes that a link carries in a time.
fn carried(rate: f64, time: Duration) -> u64 {
    let bytes = rate * time.as_secs_f64();
    // Whole blocks. Rates and latencies of links are far below the range of the number.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let blocks = (bytes / BLOCK_SIZE as f64).min(f64::from(u32::MAX)) as u64;
    blocks * BLOCK_SIZE
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn link(latency_ms: u64, mb_per_s: Option<u32>) -> Link {
        let rate = mb_per_s.map(|rate| f64::from(rate) * 1e6);
        Link { latency: Duration::from_millis(latency_ms), rate, limit: None }
    }

    #[test]
    fn a_limit_of_the_user_makes_a_link_a_slow_one() {
        let reads = RandomReadUse { misses: 100, ..RandomReadUse::default() };
        for (rate, limit, mib) in [(Some(1000), 199, 0), (None, 199, 0), (Some(1000), 200, 3), (Some(1000), 500, 9)] {
            let link = Link { limit: Some(limit * 1_000_000), ..link(20, rate) };
            assert_eq!(bytes_around(link, reads) / MIB, mib, "{rate:?} {limit}");
        }
    }

    #[test]
    fn a_table_of_links_and_uses() {
        let reads = |misses, mib, used| RandomReadUse { misses, fetched: mib * MIB, handed_over: 0, used };
        for (latency_ms, mb_per_s, use_so_far, mib) in [
            // A few reads, whatever the link.
            (20, Some(1000), reads(15, 0, 0), 0),
            // Slow links: 10 MB/s, 1 Gbit/s.
            (20, Some(10), reads(500, 0, 0), 0),
            (100, Some(119), reads(500, 0, 0), 0),
            (20, Some(199), reads(500, 2, 0), 0),
            // What a link carries while a read waits.
            (20, Some(200), reads(16, 0, 0), 3),
            (20, Some(500), reads(16, 0, 0), 9),
            (100, Some(1000), reads(16, 0, 0), 16),
            // Nothing to gain where there is no latency.
            (1, Some(700), reads(16, 0, 0), 0),
            // Unknown: one probe.
            (20, None, reads(16, 0, 0), 2),
            (20, None, reads(17, 2, 0), 0),
            (1, None, reads(16, 0, 0), 0),
            // Unused: less and less, and none after 184 of 192 MiB.
            (100, Some(1000), reads(24, 128, 0), 8),
            (100, Some(1000), reads(40, 185, 0), 0),
            // Used: more.
            (100, Some(1000), reads(40, 185, 10), 16),
        ] {
            let found = bytes_around(link(latency_ms, mb_per_s), use_so_far) / MIB;
            assert_eq!(found, mib, "{latency_ms} ms, {mb_per_s:?} MB/s, {use_so_far:?}");
        }
    }

    #[test]
    fn use_in_the_pool_stands_for_what_the_kernel_has() {
        let reads = RandomReadUse { misses: 99, fetched: 512 * MIB, handed_over: 384 * MIB / BLOCK_SIZE, used: 10 };
        assert_eq!(reads.useful(), 40);
        let lost = RandomReadUse { handed_over: 512 * MIB / BLOCK_SIZE, ..reads };
        assert_eq!(lost.useful(), 80, "a factor of eight at most");
    }

    /// Bytes fetched around the misses of a program that reads at random places of a file, and its misses.
    fn simulate(size: u64, reads: u32, link: Link, is_useful: bool, seed: u64) -> (u64, u32) {
        let mut random = fastrand::Rng::with_seed(seed);
        let blocks = size / BLOCK_SIZE;
        let mut there = vec![false; usize::try_from(blocks).unwrap()];
        let mut so_far = RandomReadUse::default();
        for _ in 0..reads {
            let place = usize::try_from(random.u64(0..blocks)).unwrap();
            if there[place] && is_useful {
                so_far.used += 1;
                continue;
            }
            so_far.misses += 1;
            let length = bytes_around(link, so_far);
            so_far.fetched += length;
            let length = usize::try_from(length / BLOCK_SIZE).unwrap();
            let first = place.saturating_sub(length / 2);
            there[first..].iter_mut().take(length.max(1)).for_each(|block| *block = true);
        }
        (so_far.fetched, so_far.misses)
    }

    #[test]
    fn a_fast_link_fetches_a_file_that_is_read_at_random_and_ends_the_misses() {
        for seed in 0..20 {
            let (fetched, misses) = simulate(1 << 30, 500, link(20, Some(500)), true, seed);
            assert!(misses <= 250, "seed {seed}: {misses} misses, {} MiB", fetched / MIB);
        }
    }

    proptest! {
        #[test]
        fn unused_bytes_are_bounded_whatever_the_link(
            latency_ms in 0_u64..1000, mb_per_s in 0_u32..100_000, reads in 0_u32..2000, seed in any::<u64>()
        ) {
            let (fetched, _) = simulate(8 << 30, reads, link(latency_ms, Some(mb_per_s)), false, seed);
            prop_assert!(fetched <= ALLOWANCE);
            if f64::from(mb_per_s) * 1e6 < FAST {
                prop_assert_eq!(fetched, 0);
            }
        }

        #[test]
        fn fetched_bytes_are_bounded_by_use(
            latency_ms in 0_u64..1000, mb_per_s in 0_u32..100_000, misses in 0_u32..10_000,
            fetched in 0_u64..1 << 40, used in 0_u64..10_000
        ) {
            let reads = RandomReadUse { misses, fetched, handed_over: 0, used };
            let length = bytes_around(link(latency_ms, Some(mb_per_s)), reads);
            prop_assert!(length <= LONGEST && (length == 0 || length >= SHORTEST));
            prop_assert!(length == 0 || fetched + length <= ALLOWANCE + PER_USED_BLOCK * used);
            prop_assert!(length as f64 <= f64::from(mb_per_s) * 1e3 * latency_ms as f64);
        }
    }
}
