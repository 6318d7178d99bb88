//! The server: exports on one port, for both protocols.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use nfs3_types::nfs3::writeverf3;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::{self, Limits, RESERVED};
use crate::context::Context;
use crate::datagrams;
use crate::error::ServerError;
use crate::export::{Export, ServedExport};
use crate::hosts::{ClosedConnections, HostLimits, Hosts};
use crate::key::{HandleKey, random};
use crate::mount_table::MountTable;
use crate::port_map::{self, PortMap};
use crate::rpcbind::Registration;

/// Pause after a connection could not be accepted: descriptors may be used up.
const PAUSE: Duration = Duration::from_millis(100);
/// Time that calls under way have to end when the server stops.
const GRACE: Duration = Duration::from_secs(10);

/// Bounds of a server. Where one is reached, clients wait: nothing is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Calls of one connection that run at a time.
    pub calls: usize,
    /// Calls of all connections of one host that run at a time.
    pub host_calls: usize,
    /// Bytes of calls and replies of one connection.
    pub connection_memory: u64,
    /// Bytes of calls and replies of all connections of one host.
    pub host_memory: u64,
    /// Bytes of calls and replies of all connections.
    pub memory: u64,
    /// Connections of one host. A further one replaces an idle one of it, or is closed.
    pub host_connections: usize,
    /// Connections. A further one replaces an idle one of the host with the most, or is closed.
    pub connections: usize,
    /// Time without any call after which a connection is closed. Clients of Linux close theirs after five minutes.
    pub idle: Duration,
}

impl Default for ServerLimits {
    /// 64 calls and 64 MiB for a connection, 256 calls and 128 MiB for the up to 128 connections of a host, 256 MiB for
    /// all of up to 1,024. Linux makes at most 16 connections to a server.
    fn default() -> Self {
        Self {
            calls: 64,
            host_calls: 256,
            connection_memory: 64 << 20,
            host_memory: 128 << 20,
            memory: 256 << 20,
            host_connections: 128,
            connections: 1024,
            idle: Duration::from_mins(6),
        }
    }
}

/// Places where clients look for the port of a program.
#[derive(Debug, Clone)]
pub struct PortMapping {
    /// Port of the port mapper.
    pub port: u16,
    /// Socket of the rpcbind of this machine.
    pub rpcbind: PathBuf,
}

impl Default for PortMapping {
    fn default() -> Self {
        Self { port: port_map::PORT, rpcbind: "/run/rpcbind.sock".into() }
    }
}

/// The way in which clients find the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// This server is the port mapper.
    Itself,
    /// The rpcbind of this machine names it.
    Rpcbind,
}

/// Exports that are about to be served.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<TcpListener>,
    datagrams: Vec<UdpSocket>,
    registration: Option<Registration>,
    address: SocketAddr,
    context: Context,
    limits: ServerLimits,
}

impl Server {
    /// Take the port. Clients are answered once [`Server::serve`] runs.
    ///
    /// # Errors
    /// When two exports have one name or one identity, when an export without a list of clients would be served beyond
    /// this machine, or when the port cannot be taken.
    pub async fn bind(
        address: SocketAddr,
        key: HandleKey,
        exports: Vec<Export>,
        limits: ServerLimits,
    ) -> Result<Self, ServerError> {
        check(address.ip(), &exports)?;
        let exports: Vec<ServedExport> = exports.into_iter().map(|export| ServedExport::new(export, &key)).collect();
        let mut ids = HashSet::new();
        if let Some(twice) = exports.iter().find(|export| !ids.insert(export.id.0)) {
            return Err(ServerError(format!("the share {} is the same as another one: export it once", twice.name)));
        }
        let cannot = |error| {
            let advice = "Another program may use the port: choose another one";
            ServerError(format!("NFS cannot be served at {address}: {error}. {advice}"))
        };
        let listener = TcpListener::bind(address).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let verifier = writeverf3(random().map_err(cannot)?);
        let mounts = MountTable::default();
        let context = Context { key, exports, verifier, replies: Arc::default(), mounts, port_map: None };
        let (listeners, datagrams, registration) = (vec![listener], Vec::new(), None);
        Ok(Self { listeners, datagrams, registration, address, context, limits })
    }

    /// Let clients find the port, so that they need no options to mount: MOUNT is served over UDP as well, and this
    /// server answers as the port mapper, or is registered with the rpcbind that does.
    ///
    /// # Errors
    /// Neither is possible. The exports can be served all the same.
    pub async fn publish(&mut self, mapping: &PortMapping) -> Result<Published, ServerError> {
        let address = self.address;
        let cannot = |what: &str, error: &dyn std::fmt::Display| {
            let port = address.port();
            ServerError(format!(
                "{what}: {error}. Without it clients mount with the options port={port},mountport={port},mountproto=tcp"
            ))
        };
        let mounts = UdpSocket::bind(address).await;
        let mounts =
            mounts.map_err(|error| cannot(&format!("MOUNT cannot be served at {address} over UDP"), &error))?;
        let at = SocketAddr::new(address.ip(), mapping.port);
        let published = match bind_port_mapper(at).await {
            Ok((listener, datagrams)) => {
                self.listeners.push(listener);
                self.datagrams.push(datagrams);
                self.context.port_map = Some(PortMap::new(address));
                Published::Itself
            }
            // The program that has the port may be rpcbind.
            Err(error) if mapping.rpcbind.exists() => {
                let made = Registration::make(&mapping.rpcbind, address).await;
                let what =
                    format!("port {} is not free ({error}), and the port of NFS cannot be registered", at.port());
                self.registration = Some(made.map_err(|error| cannot(&what, &error))?);
                Published::Rpcbind
            }
            Err(error) => return Err(cannot(&format!("the port mapper cannot be served at {at}"), &error)),
        };
        self.datagrams.push(mounts);
        Ok(published)
    }

    /// The address and port.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serve until `stop` is cancelled. Calls under way have ten seconds to end then.
    pub async fn serve(self, stop: CancellationToken) {
        let kilobytes = |bytes: u64| usize::try_from(bytes >> 10).unwrap_or(usize::MAX);
        // One call must always fit.
        let within = |bytes| kilobytes(bytes).clamp(RESERVED as usize, Semaphore::MAX_PERMITS);
        let limits = Arc::new(Limits {
            connection_memory: within(self.limits.connection_memory),
            memory: Arc::new(Semaphore::new(within(self.limits.memory))),
            idle: self.limits.idle,
        });
        let hosts = Hosts::new(HostLimits {
            connections: self.limits.connections.max(1),
            host_connections: self.limits.host_connections.max(1),
            host_memory: within(self.limits.host_memory),
            calls: self.limits.calls.max(1),
            host_calls: self.limits.host_calls.max(1),
        });
        let (context, tasks) = (Arc::new(self.context), TaskTracker::new());
        for socket in self.datagrams {
            tasks.spawn(datagrams::serve(socket, Arc::clone(&context), stop.clone(), tasks.clone()));
        }
        let acceptor = Acceptor { context, hosts, limits, tasks: tasks.clone(), server_limits: self.limits };
        join_all(self.listeners.iter().map(|listener| acceptor.accept(listener, &stop))).await;
        if let Some(registration) = self.registration {
            registration.end().await;
        }
        tasks.close();
        if tokio::time::timeout(GRACE, tasks.wait()).await.is_err() {
            tracing::warn!("{} calls had not ended when the server stopped", tasks.len());
        }
    }
}

/// The port of the port mapper, over both transports.
async fn bind_port_mapper(address: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let listener = TcpListener::bind(address).await?;
    let datagrams = UdpSocket::bind(listener.local_addr()?).await?;
    Ok((listener, datagrams))
}

/// Makes connections of what a listener accepts.
struct Acceptor {
    context: Arc<Context>,
    hosts: Arc<Hosts>,
    limits: Arc<Limits>,
    tasks: TaskTracker,
    server_limits: ServerLimits,
}

impl Acceptor {
    /// Accept connections until `stop` is cancelled.
    async fn accept(&self, listener: &TcpListener, stop: &CancellationToken) {
        let (mut strangers, mut beyond) = (ClosedConnections::default(), ClosedConnections::default());
        while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!("a connection cannot be accepted: {error}");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let address = peer.ip().to_canonical();
            if !self.context.allows(address) {
                if let Some(count) = strangers.count() {
                    tracing::warn!(
                        "connections are closed since no share lists their address among its clients: {count}, the \
                         last of {address}. Add the address to clients of a share if it may mount it"
                    );
                }
                continue;
            }
            let Some(admitted) = self.hosts.admit(address, stop) else {
                if let Some(count) = beyond.count() {
                    tracing::warn!(
                        "connections are closed since there are too many, {} in all or {} of one host: {count}, the \
                         last of {address}",
                        self.server_limits.connections,
                        self.server_limits.host_connections
                    );
                }
                continue;
            };
            // Replies are small and awaited; without it they only wait longer.
            let _slower = stream.set_nodelay(true);
            let (context, limits) = (Arc::clone(&self.context), Arc::clone(&self.limits));
            self.tasks.spawn(connection::serve(stream, admitted, context, limits, self.tasks.clone()));
        }
    }
}

/// Refuses exports that cannot be served together at this address.
fn check(address: IpAddr, exports: &[Export]) -> Result<(), ServerError> {
    if exports.is_empty() {
        return Err(ServerError("there is no share to serve: name one".to_owned()));
    }
    let mut names = HashSet::new();
    for export in exports {
        let name = &export.spec.name;
        if !names.insert(name) {
            return Err(ServerError(format!("two shares are named {name}: give each its own name")));
        }
        if !address.to_canonical().is_loopback() && export.spec.clients.is_default() {
            return Err(ServerError(format!(
                "the share {name} would be served beyond this machine, at {address}, to everyone: list its clients, or \
                 serve at 127.0.0.1"
            )));
        }
    }
    Ok(())
}
