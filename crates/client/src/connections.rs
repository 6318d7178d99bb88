//! The cache of connections: one for each endpoint and identity, least recently used first out.
//!
//! A connection costs some 200 KiB and its open sockets. Those that a running job holds stay, whatever their number; of
//! the others as many are kept as the cache is made for.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use seqferry_store::prelude::*;
use tokio::sync::OnceCell;

use crate::quirks::Endpoint;

/// Connections by what they lead to, an endpoint with an identity.
#[derive(Debug)]
pub struct ConnectionCache<K> {
    most_idle: usize,
    slots: Mutex<CacheSlots<K>>,
}

#[derive(Debug)]
struct CacheSlots<K> {
    by_key: HashMap<K, CacheSlot>,
    /// Lookups so far, which order the slots by their last use.
    lookups: u64,
}

#[derive(Debug)]
struct CacheSlot {
    /// Empty until the first caller has connected; later callers wait for it.
    connection: Arc<OnceCell<Endpoint>>,
    used: u64,
}

impl CacheSlot {
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.connection) == 1
            && self.connection.get().is_none_or(|connection| Arc::strong_count(&connection.quirks) == 1)
    }
}

impl<K: Clone + Eq + Hash> ConnectionCache<K> {
    /// A cache that keeps up to `most_idle` idle connections.
    pub fn new(most_idle: usize) -> Self {
        Self { most_idle, slots: Mutex::new(CacheSlots { by_key: HashMap::new(), lookups: 0 }) }
    }

    /// The connection for `key`, made by `connect` when there is none. Callers with the same key wait for one attempt;
    /// others do not wait for it.
    pub async fn get<F>(&self, key: &K, connect: impl FnOnce() -> F) -> Endpoint
    where
        F: Future<Output = Arc<dyn ObjectStore>>,
    {
        let slot = self.slot(key);
        slot.get_or_init(async || Endpoint::new(connect().await)).await.clone()
    }

    /// Number of connections, idle or in use.
    pub fn len(&self) -> usize {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).by_key.len()
    }

    /// True when there is no connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn slot(&self, key: &K) -> Arc<OnceCell<Endpoint>> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.lookups += 1;
        let used = slots.lookups;
        if let Some(slot) = slots.by_key.get_mut(key) {
            slot.used = used;
            return Arc::clone(&slot.connection);
        }
        let connection = Arc::<OnceCell<Endpoint>>::default();
        slots.by_key.insert(key.clone(), CacheSlot { connection: Arc::clone(&connection), used });
        let surplus = slots.take_surplus(self.most_idle);
        drop(slots);
        // Closing sockets takes time: the others need not wait for it.
        drop(surplus);
        connection
    }
}

impl<K: Clone + Eq + Hash> CacheSlots<K> {
    /// Remove what is idle beyond `most_idle`, least recently used first.
    fn take_surplus(&mut self, most_idle: usize) -> Vec<CacheSlot> {
        let mut idle: Vec<(u64, K)> =
            self.by_key.iter().filter(|(_, slot)| slot.is_idle()).map(|(key, slot)| (slot.used, key.clone())).collect();
        idle.sort_unstable_by_key(|(used, _)| *used);
        let surplus = idle.len().saturating_sub(most_idle);
        idle.into_iter().take(surplus).filter_map(|(_, key)| self.by_key.remove(&key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use seqferry_store_testing::MemoryStore;

    use super::*;

    async fn connected() -> Arc<dyn ObjectStore> {
        Arc::new(MemoryStore::default())
    }

    #[tokio::test]
    async fn idle_connections_are_bounded_and_the_last_used_ones_stay() {
        let cache = ConnectionCache::new(8);
        for key in 0..400 {
            cache.get(&key, connected).await;
            cache.get(&0, connected).await;
        }

        // The last one counts as in use while the others are counted.
        assert_eq!(cache.len(), 9);
        let _kept = cache.get(&0, || async { panic!("it was used each time") }).await;
    }

    #[tokio::test]
    async fn connections_in_use_stay_and_are_shared() {
        let cache = ConnectionCache::new(2);
        let used = cache.get(&-1, connected).await;
        for key in 0..50 {
            cache.get(&key, connected).await;
        }

        let again = cache.get(&-1, || async { panic!("it is in use") }).await;

        assert!(used.is_same(&again));
    }

    #[tokio::test]
    async fn one_attempt_is_made_for_each_key_and_no_other_key_waits_for_it() {
        let cache = ConnectionCache::new(8);
        let attempts = AtomicU32::new(0);
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let wait = Mutex::new(Some(wait));
        let slow = || async {
            attempts.fetch_add(1, Ordering::SeqCst);
            let wait = wait.lock().unwrap().take().expect("one attempt");
            wait.await.unwrap();
            connected().await
        };

        let (first, second, ()) = tokio::join!(cache.get(&"slow", slow), cache.get(&"slow", slow), async {
            cache.get(&"fast", connected).await;
            go.send(()).unwrap();
        });

        assert!(first.is_same(&second));
        assert_eq!(attempts.load(Ordering::SeqCst), 1);
    }
}
