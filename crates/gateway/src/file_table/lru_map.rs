//! A map with a bounded number of entries: about half of them, the least recently used, are dropped when it is full.

use std::collections::HashMap;
use std::hash::Hash;

/// See the module.
#[derive(Debug)]
pub(super) struct LruMap<K, V> {
    /// Entries that were used lately, and those that were used before.
    recent: HashMap<K, V>,
    older: HashMap<K, V>,
    most: usize,
}

impl<K: Eq + Hash, V> LruMap<K, V> {
    /// A map of at most this many entries; half of them are forgotten when there are more.
    pub(super) fn new(most: usize) -> Self {
        Self { recent: HashMap::new(), older: HashMap::new(), most }
    }

    pub(super) fn len(&self) -> usize {
        self.recent.len() + self.older.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.older.iter().chain(&self.recent)
    }

    pub(super) fn get(&mut self, key: &K) -> Option<&V> {
        if let Some((key, value)) = self.older.remove_entry(key) {
            self.insert(key, value);
        }
        self.recent.get(key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        self.older.remove(&key);
        if self.recent.len() >= self.most / 2 {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(key, value);
    }

    pub(super) fn remove(&mut self, key: &K) {
        self.older.remove(key);
        self.recent.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_is_forgotten_when_there_is_too_much() {
        let mut map = LruMap::new(8);
        for key in 0..1000 {
            map.insert(key, key);
            assert_eq!(map.get(&0), Some(&0), "{key}");
            assert!(map.len() <= 8, "{key}");
        }
        assert_eq!(map.get(&999), Some(&999));
        assert_eq!(map.get(&1), None);
        map.remove(&0);
        assert_eq!(map.get(&0), None);
    }
}
