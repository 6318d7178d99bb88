//! The clients of a process: one connection for each endpoint and identity, all within one budget and one lease.

use std::sync::Arc;

use crate::budget::Budget;
use seqferry_store::{DiskOptions, DiskStore, EndpointOptions, ObjectStore, Priority, S3Store};
use tokio_util::sync::CancellationToken;

use crate::client::RetryingClient;
use crate::connections::ConnectionCache;
use crate::lease::{Lease, LeaseHolder};
use crate::metrics::RequestMetrics;
use crate::quirks::Endpoint;
use crate::retry::RetryPolicy;

/// Idle connections that are kept.
const IDLE_CONNECTIONS: usize = 64;

/// Target of requests: a service with an identity, or this machine's disks. Equal ones share a connection and all that
/// was learned of the service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EndpointSpec {
    /// A service, with an identity.
    Service(EndpointOptions),
    /// Disks of this machine.
    Disk(DiskOptions),
}

impl EndpointSpec {
    async fn connect(&self, budget: &Budget, priority: Priority) -> Arc<dyn ObjectStore> {
        match self {
            Self::Service(options) => {
                Arc::new(S3Store::connect_throttled(options.clone(), budget.throttle(priority)).await)
            }
            Self::Disk(options) => Arc::new(DiskStore::new(options.clone())),
        }
    }
}

/// Makes clients. One for each process: its budget bounds the requests of all of them.
#[derive(Debug)]
pub struct ClientPool {
    budget: Arc<Budget>,
    metrics: Arc<RequestMetrics>,
    lease: Arc<Lease>,
    connections: ConnectionCache<(EndpointSpec, Priority)>,
}

impl ClientPool {
    /// A pool without connections. Its lease has lapsed until it is set.
    pub fn new(budget: Arc<Budget>) -> Self {
        let connections = ConnectionCache::new(IDLE_CONNECTIONS);
        Self { budget, metrics: Arc::default(), lease: Arc::default(), connections }
    }

    /// The budget of all clients.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// The lease that leased writes wait for.
    pub fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// Leave to write in this epoch of the lease.
    pub fn lease_holder(&self, epoch: u64) -> Arc<LeaseHolder> {
        Arc::new(LeaseHolder::new(Arc::clone(&self.lease), epoch))
    }

    /// The connection to an endpoint, made when there is none. No request is sent for it.
    pub async fn connection(&self, endpoint: &EndpointSpec) -> Endpoint {
        self.connection_for(endpoint, Priority::Bulk).await
    }

    async fn connection_for(&self, endpoint: &EndpointSpec, priority: Priority) -> Endpoint {
        let key = (endpoint.clone(), priority);
        self.connections.get(&key, || endpoint.connect(&self.budget, priority)).await
    }

    /// A client of an endpoint, which nothing cancels.
    pub async fn client(&self, endpoint: &EndpointSpec, policy: RetryPolicy) -> RetryingClient {
        self.client_of(self.connection(endpoint).await, policy)
    }

    /// A client of an endpoint, until `cancel`.
    pub async fn client_until(
        &self,
        endpoint: &EndpointSpec,
        policy: RetryPolicy,
        cancel: CancellationToken,
    ) -> RetryingClient {
        let connection = self.connection(endpoint).await;
        RetryingClient::new(connection, Arc::clone(&self.budget), policy, cancel, Arc::clone(&self.metrics))
    }

    /// A client for interactive reads: its requests, memory and bytes go before those of transfers.
    pub async fn interactive_client(&self, endpoint: &EndpointSpec, policy: RetryPolicy) -> RetryingClient {
        self.client_of(self.connection_for(endpoint, Priority::Interactive).await, policy).interactive()
    }

    fn client_of(&self, connection: Endpoint, policy: RetryPolicy) -> RetryingClient {
        let (budget, metrics) = (Arc::clone(&self.budget), Arc::clone(&self.metrics));
        RetryingClient::new(connection, budget, policy, CancellationToken::new(), metrics)
    }
}

#[cfg(test)]
mod tests {
    use crate::budget::BudgetLimits;
    use seqferry_store::Symlinks;

    use super::*;

    #[tokio::test]
    async fn equal_endpoints_share_a_connection_and_others_do_not() {
        let pool = ClientPool::new(Budget::new(BudgetLimits::default()));
        let disk = |symlinks| EndpointSpec::Disk(DiskOptions { symlinks, ..DiskOptions::default() });

        let first = pool.client(&disk(Symlinks::Follow), RetryPolicy::default()).await;
        let same = pool.client(&disk(Symlinks::Follow), RetryPolicy::impatient()).await;
        let other = pool.client(&disk(Symlinks::Keep), RetryPolicy::default()).await;

        assert!(first.connection().is_same(same.connection()));
        assert!(!first.connection().is_same(other.connection()));
    }
}
