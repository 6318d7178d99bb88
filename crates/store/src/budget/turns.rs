//! A queue that serves those who wait in it in turn: one of each owner, the lowest rank of an owner first, and among equals in
//! the order in which they came.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

/// Holds no more than what waits: an owner is forgotten with its last entry.
#[derive(Debug)]
pub(super) struct Turns<O, T> {
    order: VecDeque<O>,
    /// Under rank and number.
    waiting: HashMap<O, BTreeMap<(u64, u64), T>>,
    /// How many ever came.
    came: u64,
    len: usize,
}

impl<O, T> Default for Turns<O, T> {
    fn default() -> Self {
        Self { order: VecDeque::new(), waiting: HashMap::new(), came: 0, len: 0 }
    }
}

impl<O: Copy + Eq + Hash, T> Turns<O, T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn push(&mut self, owner: O, rank: u64, entry: T) {
        self.len += 1;
        self.came += 1;
        let queue = self.waiting.entry(owner).or_default();
        if queue.is_empty() {
            self.order.push_back(owner);
        }
        queue.insert((rank, self.came), entry);
    }

    pub(super) fn pop(&mut self) -> Option<T> {
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

    /// Forget the entries that are not to be kept.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
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
        let mut turns = Turns::default();
        for n in 0..1000 {
            turns.push("big", 0, n);
        }
        turns.push("small", 7, 5000);
        turns.push("other", 0, 6000);
        turns.push("small", 7, 5001);

        let served: Vec<i32> = (0..6).filter_map(|_| turns.pop()).collect();

        assert_eq!(served, [0, 5000, 6000, 1, 5001, 2]);
        assert_eq!(turns.len(), 997);
    }

    #[test]
    fn of_one_owner_the_lowest_rank_comes_first_whenever_it_came() {
        let mut turns = Turns::default();
        for (rank, entry) in [(5, "5a"), (3, "3a"), (5, "5b"), (3, "3b")] {
            turns.push("one", rank, entry);
        }
        turns.push("another", 9, "9");

        assert_eq!(turns.pop(), Some("3a"));
        turns.push("one", 4, "4");
        let served: Vec<&str> = std::iter::from_fn(|| turns.pop()).collect();

        assert_eq!(served, ["9", "3b", "4", "5a", "5b"]);
    }

    #[test]
    fn nothing_is_kept_of_those_who_left() {
        let mut turns = Turns::default();
        for n in 0..10 {
            turns.push(n % 3, 0, n);
        }

        turns.retain(|n| n % 3 != 1);
        assert_eq!(turns.len(), 7);
        while turns.pop().is_some() {}

        assert!(turns.is_empty());
        assert!(turns.order.is_empty() && turns.waiting.is_empty());
    }
}
