//! A queue that serves those who wait in it in turn: one of each owner, in the order in which they came.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Holds no more than what waits: an owner is forgotten with its last entry.
#[derive(Debug)]
pub(super) struct Turns<O, T> {
    order: VecDeque<O>,
    waiting: HashMap<O, VecDeque<T>>,
    len: usize,
}

impl<O, T> Default for Turns<O, T> {
    fn default() -> Self {
        Self { order: VecDeque::new(), waiting: HashMap::new(), len: 0 }
    }
}

impl<O: Copy + Eq + Hash, T> Turns<O, T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn push(&mut self, owner: O, entry: T) {
        self.len += 1;
        let queue = self.waiting.entry(owner).or_default();
        if queue.is_empty() {
            self.order.push_back(owner);
        }
        queue.push_back(entry);
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let owner = self.order.pop_front()?;
        let queue = self.waiting.get_mut(&owner)?;
        let entry = queue.pop_front();
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
            queue.retain(&mut keep);
            !queue.is_empty()
        });
        self.order.retain(|owner| self.waiting.contains_key(owner));
        self.len = self.waiting.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_owner_has_its_turn_however_many_another_has_waiting() {
        let mut turns = Turns::default();
        for n in 0..1000 {
            turns.push("big", n);
        }
        turns.push("small", 5000);
        turns.push("other", 6000);
        turns.push("small", 5001);

        let served: Vec<i32> = (0..6).filter_map(|_| turns.pop()).collect();

        assert_eq!(served, [0, 5000, 6000, 1, 5001, 2]);
        assert_eq!(turns.len(), 997);
    }

    #[test]
    fn nothing_is_kept_of_those_who_left() {
        let mut turns = Turns::default();
        for n in 0..10 {
            turns.push(n % 3, n);
        }

        turns.retain(|n| n % 3 != 1);
        assert_eq!(turns.len(), 7);
        while turns.pop().is_some() {}

        assert!(turns.is_empty());
        assert!(turns.order.is_empty() && turns.waiting.is_empty());
    }
}
