//! Ranges of bytes: apart from each other, in order.

use std::collections::BTreeMap;

/// Ranges by their start; the value is the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Extents(BTreeMap<u64, u64>);

impl Extents {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(start, end)| (*start, *end))
    }

    /// Add a range. It is joined with those that it touches.
    pub(crate) fn add(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        while let Some((&from, &to)) = self.0.range(..=end).next_back().filter(|(_, to)| **to >= start) {
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        other.iter().for_each(|(start, end)| self.add(start, end));
    }

    /// Leave out everything from an offset on.
    pub(crate) fn cut(&mut self, from: u64) {
        drop(self.0.split_off(&from));
        if let Some((_, end)) = self.0.iter_mut().next_back() {
            *end = (*end).min(from);
        }
    }

    /// A range in pieces: start, end, and whether the piece is in here.
    pub(crate) fn pieces(&self, start: u64, end: u64) -> Vec<(u64, u64, bool)> {
        let mut pieces = Vec::new();
        let mut at = start;
        let first = self.0.range(..=start).next_back().map_or(start, |(from, _)| *from);
        for (&from, &to) in self.0.range(first..end.max(first)) {
            let (from, to) = (from.max(at), to.min(end));
            if to <= from {
                continue;
            }
            if from > at {
                pieces.push((at, from, false));
            }
            pieces.push((from, to, true));
            at = to;
        }
        if at < end {
            pieces.push((at, end, false));
        }
        pieces
    }

    /// The smallest gap between two ranges.
    pub(crate) fn smallest_gap(&self) -> Option<(u64, u64)> {
        let gaps = self.0.values().zip(self.0.keys().skip(1));
        gaps.map(|(end, start)| (*end, *start)).min_by_key(|(end, start)| start - end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_a_map_of_bytes() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..300 {
            let (mut extents, mut bytes) = (Extents::default(), [false; 64]);
            for _ in 0..random.usize(1..20) {
                let (a, b) = (random.usize(0..=64), random.usize(0..=64));
                if random.u8(..) < 200 {
                    extents.add(a as u64, b as u64);
                    (a..b).for_each(|at| bytes[at] = true);
                } else {
                    extents.cut(a as u64);
                    (a..64).for_each(|at| bytes[at] = false);
                }
                let (start, end) = (a.min(b), a.max(b));
                let mut at = start as u64;
                for (from, to, is_in) in extents.pieces(start as u64, end as u64) {
                    assert_eq!(from, at, "pieces follow each other");
                    assert!((from..to).all(|at| bytes[usize::try_from(at).unwrap()] == is_in));
                    at = to;
                }
                assert_eq!(at, end as u64);
                let runs = (0..64).filter(|at| bytes[*at] && (*at == 0 || !bytes[at - 1])).count();
                assert_eq!(extents.len(), runs);
            }
        }
    }

    #[test]
    fn the_smallest_gap_is_found() {
        let mut extents = Extents::default();
        assert_eq!(extents.smallest_gap(), None);
        for (start, end) in [(0, 1), (10, 20), (22, 30), (40, 50)] {
            extents.add(start, end);
        }
        assert_eq!(extents.smallest_gap(), Some((20, 22)));
    }
}
