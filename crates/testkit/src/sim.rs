//! `s3sim`: an S3 service made of arithmetic, for limits and sizes that no laptop has.
//!
//! Objects are synthetic ([`content`]): size and seed, bytes made when they are requested, so that terabytes need no
//! disk. Copies and multipart uploads are lists of extents, of which a check says whether they are the source byte by
//! byte. A service model ([`model`]) says how long requests take and when they are refused; faults ([`faults`]) say
//! what goes wrong. An operation that is not modelled is answered 501 with its name. Signatures are not verified.
//!
//! The page `docs/develop/simulator.md` lists the options with their sources.

mod admin;
mod answer;
mod bucket;
mod checksum;
pub mod content;
mod context;
mod counters;
pub mod crc;
pub mod faults;
mod intake;
mod keys;
pub mod model;
mod operations;
mod reply;
pub mod scenario;
mod server;
mod state;
mod xml;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use serde::Serialize;
use tokio::sync::oneshot;

use self::context::ServerContext;
pub use self::counters::{RequestCounts, SecondCounts, WastedWork};
use self::faults::FaultRule;
use self::scenario::Scenario;
use self::state::SimState;

/// Counters since the start or the last reset, unless a field says otherwise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimStats {
    /// Seconds of the model's time since the start.
    pub seconds: f64,
    /// All requests.
    pub requests: u64,
    /// Requests refused by the model's rates.
    pub throttled: u64,
    /// Counts by operation.
    pub operations: BTreeMap<String, RequestCounts>,
    /// Requests under way now.
    pub in_flight: u64,
    /// Most requests that were in flight concurrently.
    pub peak_in_flight: u64,
    /// Faults that struck, since the start.
    pub faults: u64,
    /// Bytes of objects and parts received.
    pub bytes_received: u64,
    /// Bytes of objects sent; more than the clients took where one left early.
    pub bytes_sent: u64,
    /// Bytes copied inside the service.
    pub bytes_copied: u64,
    /// Work that came to nothing.
    pub wasted: WastedWork,
    /// Neither completed nor aborted.
    pub open_uploads: u64,
    /// Bytes of bodies in memory.
    pub kept_bytes: u64,
    /// Objects that clients wrote and that are there.
    pub written_objects: u64,
    /// Number of partitions by bucket.
    pub partitions: BTreeMap<String, usize>,
    /// Counts of each of the last 3,600 seconds, at most, in which there were requests.
    pub timeline: Vec<SecondCounts>,
}

/// Result of comparing all objects below one prefix with those below another, byte for byte.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PrefixComparison {
    /// Objects below the source.
    pub objects: u64,
    /// Bytes of those objects.
    pub bytes: u64,
    /// Objects found below the target, the same by construction.
    pub same: u64,
    /// Objects not found below the target.
    pub missing_count: u64,
    /// Objects found with other bytes.
    pub different_count: u64,
    /// The first 100 of them, as keys of the target.
    pub missing: Vec<String>,
    /// The first 100 of them.
    pub different: Vec<String>,
}

/// A running simulator; ends when dropped.
pub struct Simulator {
    address: SocketAddr,
    shared: Arc<ServerContext>,
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Simulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulator").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Simulator {
    /// Starts a simulator on a free loopback port.
    ///
    /// # Errors
    /// The text names the error in the scenario, or says that no port or thread is available.
    pub fn start(scenario: Scenario) -> Result<Self, String> {
        Self::listen((Ipv4Addr::LOCALHOST, 0).into(), scenario, 1)
    }

    /// Starts a simulator on a chosen address; port 0 takes a free port. One thread serves tens of thousands of
    /// requests a second.
    ///
    /// # Errors
    /// The errors of [`Simulator::start`].
    pub fn listen(address: SocketAddr, scenario: Scenario, threads: usize) -> Result<Self, String> {
        let state = SimState::new(scenario)?;
        let listener = TcpListener::bind(address).map_err(|error| format!("cannot listen on {address}: {error}"))?;
        let failed = |error: std::io::Error| format!("cannot serve on {address}: {error}");
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(ServerContext::new(state));
        let mut runtime = match threads {
            0 => return Err("threads must be at least 1".to_owned()),
            1 => tokio::runtime::Builder::new_current_thread(),
            _ => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = runtime.worker_threads(threads).enable_io().enable_time().build().map_err(failed)?;
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let served = Arc::clone(&shared);
        let serve = move || {
            runtime.block_on(async move {
                match tokio::net::TcpListener::from_std(listener) {
                    Ok(listener) => tokio::select! {
                        // On a task of its own: with several threads those are where the work is done.
                        _ = tokio::spawn(server::accept(listener, served)) => {}
                        _ = stopped => {}
                    },
                    Err(error) => eprintln!("s3sim: {error}"),
                }
            });
            // Ends every connection immediately, whatever is under way on it.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("s3sim".to_owned()).spawn(serve).map_err(failed)?;
        Ok(Self { address, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Address on which the simulator listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for clients: `http://127.0.0.1:port`.
    pub fn endpoint_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Counters of the simulation, as [`SimStats`] describes them.
    pub fn stats(&self) -> SimStats {
        admin::stats(&self.shared.state())
    }

    /// Replaces the fault rules.
    ///
    /// # Panics
    /// When one could never fire, such as one for a misspelt operation.
    pub fn set_faults(&self, rules: Vec<FaultRule>) {
        for rule in &rules {
            if let Err(problem) = rule.check() {
                panic!("{problem}");
            }
        }
        self.shared.state().faults.rules = rules;
    }

    /// Compares all objects below `source` (`bucket/prefix`) with those below `target`, byte for byte by construction.
    ///
    /// # Errors
    /// When a bucket is not there.
    pub fn check(&self, source: &str, target: &str) -> Result<PrefixComparison, String> {
        admin::check(&self.shared, source, target)
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
