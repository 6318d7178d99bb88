//! Connections by host: how many one host may have, and which one is closed for a new one.
//!
//! A host is an address. Connections of addresses on no list of clients are closed before anything is read, so that
//! these limits are for clients alone. Beyond a limit a new connection replaces an idle one: of the same host where
//! that host has its most, otherwise of the host with the most connections. NFS 3 keeps nothing in a connection: a
//! client whose connection was closed connects again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Time between two warnings about connections that are closed for one cause.
const WARNING_PAUSE: Duration = Duration::from_mins(1);

/// Limits on connections and on what they use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostLimits {
    /// Connections of all hosts.
    pub(crate) connections: usize,
    /// Connections of one host.
    pub(crate) host_connections: usize,
    /// Kilobytes of calls and replies of one host.
    pub(crate) host_memory: usize,
    /// Calls of one connection.
    pub(crate) calls: usize,
    /// Calls of one host.
    pub(crate) host_calls: usize,
}

/// Connections that are open.
#[derive(Debug)]
pub(crate) struct Hosts {
    limits: HostLimits,
    state: Mutex<HostTable>,
}

#[derive(Debug, Default)]
struct HostTable {
    hosts: HashMap<IpAddr, Host>,
    connections: usize,
    last: u64,
}

#[derive(Debug)]
struct Host {
    /// Outlives the connections while calls of them run, as `calls` does.
    memory: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    connections: HashMap<u64, HostConnection>,
}

/// A connection, as others see it. It is idle while all its permits of calls are there.
#[derive(Debug)]
struct HostConnection {
    calls: Arc<Semaphore>,
    most_calls: usize,
    /// Begin of its last call.
    used: Instant,
    close: CancellationToken,
}

/// A connection that was admitted. It counts until this is dropped.
#[derive(Debug)]
pub(crate) struct AdmittedConnection {
    hosts: Arc<Hosts>,
    pub(crate) address: IpAddr,
    number: u64,
    /// Calls of this connection.
    pub(crate) calls: Arc<Semaphore>,
    /// Calls of all connections of the host.
    pub(crate) host_calls: Arc<Semaphore>,
    /// Memory of all connections of the host.
    pub(crate) memory: Arc<Semaphore>,
    /// Cancelled when another connection takes its place.
    pub(crate) close: CancellationToken,
}

impl Hosts {
    pub(crate) fn new(limits: HostLimits) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default() })
    }

    /// Admit a connection, which ends with `stop`. None: there are as many as there may be, and none can be closed.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr, stop: &CancellationToken) -> Option<AdmittedConnection> {
        let HostLimits { connections, host_connections, host_memory, calls, host_calls } = self.limits;
        let mut state = self.lock();
        let of_host = state.connections_of(address);
        if of_host >= host_connections {
            state.close_idle(address)?;
        } else if state.connections >= connections {
            // Hosts with fewer connections are served first.
            let largest = *state.hosts.keys().max_by_key(|other| state.connections_of(**other))?;
            if state.connections_of(largest) <= of_host + 1 {
                return None;
            }
            state.close_idle(largest)?;
        }
        if !state.hosts.contains_key(&address) {
            let is_in_use = |host: &Host| host.memory.available_permits() < host_memory;
            state.hosts.retain(|_, host| !host.connections.is_empty() || is_in_use(host));
        }
        state.last += 1;
        state.connections += 1;
        let number = state.last;
        let (most_calls, calls, close) = (calls, Arc::new(Semaphore::new(calls)), stop.child_token());
        let new = || Host {
            memory: Arc::new(Semaphore::new(host_memory)),
            calls: Arc::new(Semaphore::new(host_calls)),
            connections: HashMap::new(),
        };
        let host = state.hosts.entry(address).or_insert_with(new);
        let connection =
            HostConnection { calls: Arc::clone(&calls), most_calls, used: Instant::now(), close: close.clone() };
        host.connections.insert(number, connection);
        let (host_calls, memory) = (Arc::clone(&host.calls), Arc::clone(&host.memory));
        Some(AdmittedConnection { hosts: Arc::clone(self), address, number, calls, host_calls, memory, close })
    }

    fn lock(&self) -> MutexGuard<'_, HostTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostTable {
    fn connections_of(&self, address: IpAddr) -> usize {
        self.hosts.get(&address).map_or(0, |host| host.connections.len())
    }

    /// Close the connection of a host that was not used for the longest, and has no call. None: all have calls.
    fn close_idle(&mut self, address: IpAddr) -> Option<()> {
        let host = self.hosts.get(&address)?;
        let is_idle = |connection: &HostConnection| connection.calls.available_permits() >= connection.most_calls;
        let idle = host.connections.iter().filter(|(_, connection)| is_idle(connection));
        let number = idle.min_by_key(|(_, connection)| connection.used).map(|(number, _)| *number)?;
        self.remove(address, number);
        Some(())
    }

    fn remove(&mut self, address: IpAddr, number: u64) {
        let removed = self.hosts.get_mut(&address).and_then(|host| host.connections.remove(&number));
        if let Some(connection) = removed {
            connection.close.cancel();
            self.connections -= 1;
        }
    }
}

impl AdmittedConnection {
    /// A call begins.
    pub(crate) fn touch(&self) {
        let mut state = self.hosts.lock();
        let host = state.hosts.get_mut(&self.address);
        if let Some(connection) = host.and_then(|host| host.connections.get_mut(&self.number)) {
            connection.used = Instant::now();
        }
    }

    /// True while it has no call, nor a part of one.
    pub(crate) fn is_idle(&self) -> bool {
        self.calls.available_permits() >= self.hosts.limits.calls
    }
}

impl Drop for AdmittedConnection {
    fn drop(&mut self) {
        self.hosts.lock().remove(self.address, self.number);
    }
}

/// Connections that were closed for one cause: a warning a minute tells of all of them.
#[derive(Debug, Default)]
pub(crate) struct ClosedConnections {
    count: usize,
    warned: Option<Instant>,
}

impl ClosedConnections {
    /// Count one. Some: the connections since the last warning, which is due.
    pub(crate) fn count(&mut self) -> Option<usize> {
        self.count += 1;
        if self.warned.is_some_and(|at| at.elapsed() < WARNING_PAUSE) {
            return None;
        }
        self.warned = Some(Instant::now());
        Some(std::mem::take(&mut self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(connections: usize, host_connections: usize) -> (Arc<Hosts>, CancellationToken) {
        let limits = HostLimits { connections, host_connections, host_memory: 100, calls: 2, host_calls: 4 };
        (Hosts::new(limits), CancellationToken::new())
    }

    fn host(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_with_its_most_connections_replaces_its_own_idle_one_that_was_used_least_lately() {
        let (hosts, stop) = hosts(10, 2);
        let other = hosts.admit(host(2), &stop).unwrap();
        let first = hosts.admit(host(1), &stop).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        let second = hosts.admit(host(1), &stop).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        first.touch();
        let third = hosts.admit(host(1), &stop).unwrap();
        assert_eq!([&first, &second, &other].map(|one| one.close.is_cancelled()), [false, true, false]);
        let _calls = [&first, &third].map(|one| Arc::clone(&one.calls).try_acquire_owned().unwrap());
        assert!(hosts.admit(host(1), &stop).is_none(), "both have calls");
        drop(third);
        assert!(hosts.admit(host(1), &stop).is_some());
        assert!(!first.is_idle() && other.is_idle());
    }

    #[test]
    fn where_all_places_are_taken_the_host_with_the_most_connections_gives_one() {
        let (hosts, stop) = hosts(6, 5);
        let many: Vec<_> = (0..5).map(|_| hosts.admit(host(1), &stop).unwrap()).collect();
        let closed = || many.iter().filter(|one| one.close.is_cancelled()).count();
        let others: Vec<_> = (2..5).map(|number| hosts.admit(host(number), &stop).unwrap()).collect();
        assert_eq!(closed(), 2);
        assert!(hosts.admit(host(2), &stop).is_some_and(|_| closed() == 3));
        assert!(others.iter().all(|one| !one.close.is_cancelled()));
        drop(many);
        drop(others);
        assert_eq!(hosts.lock().connections, 0);
        let (hosts, stop) = self::hosts(2, 2);
        let _one = hosts.admit(host(1), &stop).unwrap();
        let _two = hosts.admit(host(2), &stop).unwrap();
        assert!(hosts.admit(host(3), &stop).is_none(), "no host has more than it");
    }

    #[test]
    fn memory_of_calls_counts_for_a_host_that_connects_anew() {
        let (hosts, stop) = hosts(6, 5);
        let first = hosts.admit(host(1), &stop).unwrap();
        let held = Arc::clone(&first.memory).try_acquire_many_owned(60).unwrap();
        drop(first);
        let _other = hosts.admit(host(2), &stop).unwrap();
        let again = hosts.admit(host(1), &stop).unwrap();
        assert_eq!(again.memory.available_permits(), 40);
        drop((held, again));
        let _third = hosts.admit(host(3), &stop).unwrap();
        assert!(!hosts.lock().hosts.contains_key(&host(1)), "nothing is left of it");
    }
}
