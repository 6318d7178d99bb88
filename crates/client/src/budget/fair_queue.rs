//! A fair queue: its owners are served in turn, one entry each.
//!
//! The entries of one owner are served by rank, the lowest first, and by their order of arrival among equal ranks.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

/// See the module. An owner is forgotten with its last entry.
#[derive(Debug)]
pub struct FairQueue<O, T> {
    order: VecDeque<O>,
    /// Entries of each owner, by rank and number.
    waiting: HashMap<O, BTreeMap<(u64, u64), T>>,
    /// Number of entries pushed so far.
    pushed: u64,
    len: usize,
}

impl<O, T> Default for FairQueue<O, T> {
    fn default() -> Self {
        Self { order: VecDeque::new(), waiting: HashMap::new(), pushed: 0, len: 0 }
    }
}

impl<O: Copy + Eq + Hash, T> FairQueue<O, T> {
    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Add an entry of this owner.
    pub fn push(&mut self, owner: O, rank: u64, entry: T) {
        self.len += 1;
        self.pushed += 1;
        let queue = self.waiting.entry(owner).or_default();
        if queue.is_empty() {
            self.order.push_back(owner);
        }
        queue.insert((rank, self.pushed), entry);
    }

    /// Take the next entry.
    pub fn pop(&mut self) -> Option<T> {
        let owner = self.order.pop_front()?;
        let queue = self.waiting.get_mut(&owner)?;
        let entry = queue.pop_first().map(|(_, entry)| entry);
        if queue.is_empty() {
            self.waiting.remove(&owner);
        } else {
            self.order.push_back(owner);
        }
        self.len -= usize::from(entry.is_some());
        entry
    }

    /// Forget the entries that `keep` refuses.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.waiting.retain(|_, queue| {
            queue.retain(|_, entry| keep(entry));
            !queue.is_empty()
        });
        self.order.retain(|owner| self.waiting.contains_key(owner));
        self.len = self.waiting.values().map(BTreeMap::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_owner_has_its_turn_however_many_another_has_waiting() {
        let mut queue = FairQueue::default();
        for n in 0..1000 {
            queue.push("big", 0, n);
        }
        queue.push("small", 7, 5000);
        queue.push("other", 0, 6000);
        queue.push("small", 7, 5001);

        let served: Vec<i32> = (0..6).filter_map(|_| queue.pop()).collect();

        assert_eq!(served, [0, 5000, 6000, 1, 5001, 2]);
        assert_eq!(queue.len(), 997);
    }

    #[test]
    fn of_one_owner_the_lowest_rank_comes_first_whenever_it_came() {
        let mut queue = FairQueue::default();
        for (rank, entry) in [(5, "5a"), (3, "3a"), (5, "5b"), (3, "3b")] {
            queue.push("one", rank, entry);
        }
        queue.push("another", 9, "9");

        assert_eq!(queue.pop(), Some("3a"));
        queue.push("one", 4, "4");
        let served: Vec<&str> = std::iter::from_fn(|| queue.pop()).collect();

        assert_eq!(served, ["9", "3b", "4", "5a", "5b"]);
    }

    #[test]
    fn nothing_is_kept_of_those_who_left() {
        let mut queue = FairQueue::default();
        for n in 0..10 {
            queue.push(n % 3, 0, n);
        }

        queue.retain(|n| n % 3 != 1);
        assert_eq!(queue.len(), 7);
        while queue.pop().is_some() {}

        assert!(queue.is_empty());
        assert!(queue.order.is_empty() && queue.waiting.is_empty());
    }
}
