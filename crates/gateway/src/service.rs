//! Shares served by this process: runtime, budget, cache, files and server put together.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seqferry_client::{Budget, BudgetLimits, ClientPool, EndpointSpec, RetryPolicy, RuntimeProbe};
use seqferry_nfs::{ClientList, ExportSpec as NfsExportSpec, HandleKey, Server, ServerLimits, Share, Squash};
use seqferry_vfs::disk_cache::{CacheLimits, CacheTier, DiskCache, TierOptions};
use seqferry_vfs::{ArchiveView, Export, ExportSpec, Freshness, Pool, TreeOptions};
use sha2::{Digest as _, Sha256};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::ids::FileTable;
use crate::share::{BucketShare, ShareDefaults};
use crate::writable_share::{UploadSpec, WritableShare, WritableSpec};

/// Threads of the runtime: two serve a saturated link; more clients than those of one machine keep more busy.
const THREADS: usize = 4;
/// Longest wait for calls under way when the gateway stops.
const GRACE: Duration = Duration::from_secs(15);

/// A share: its name, its place, and who may use it.
#[derive(Debug, Clone)]
pub struct ShareSpec {
    /// Name; clients mount `/name`.
    pub name: String,
    /// Endpoint of the bucket, and the credentials for it.
    pub endpoint: EndpointSpec,
    /// Name of the endpoint in caches and handles: its URL, or one for AWS.
    pub endpoint_name: String,
    /// Bucket and prefix, and how long names stay valid.
    pub tree: TreeOptions,
    /// Addresses and networks of clients; empty: programs on this machine.
    pub clients: Vec<String>,
    /// Users that count as the anonymous one.
    pub squash: Squash,
    /// The anonymous user and group.
    pub anonymous: (u32, u32),
    /// Facts about files that store none.
    pub defaults: ShareDefaults,
}

/// Specification of a gateway.
#[derive(Debug, Clone)]
pub struct GatewaySpec {
    /// Address and port.
    pub address: SocketAddr,
    /// A folder for the key and the table of handles. Handles stay valid as long as it is kept.
    pub state: PathBuf,
    /// A folder that keeps blocks and names beyond this process, and its bounds.
    pub cache: Option<(PathBuf, CacheLimits)>,
    /// Bytes of memory for blocks.
    pub memory: u64,
    /// Requests in flight at most.
    pub max_requests: usize,
    /// Bytes per second at most.
    pub max_bandwidth: Option<u64>,
    /// The shares.
    pub shares: Vec<ShareSpec>,
}

/// Reason why a gateway cannot be started: one sentence with the cause, and one with the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayError(pub String);

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GatewayError {}

/// A gateway that serves its shares until it is stopped or dropped.
#[derive(Debug)]
pub struct Gateway {
    address: SocketAddr,
    stop: CancellationToken,
    serving: Option<JoinHandle<()>>,
    exports: Vec<Export>,
    budget: Arc<Budget>,
    runtime: Option<Runtime>,
    /// Held as long as the folder is in use.
    _lock: File,
}

impl GatewaySpec {
    /// Serve the shares. They can be mounted when this returns.
    ///
    /// # Errors
    /// When one of the shares cannot be served; none is then.
    pub fn start(self) -> Result<Gateway, GatewayError> {
        self.start_in(None)
    }

    /// Serve the shares for tests of writing: what clients write stays in this folder, and never reaches the bucket.
    ///
    /// # Errors
    /// When one of the shares cannot be served; none is then.
    #[doc(hidden)]
    pub fn start_without_upload(self, folder: &Path) -> Result<Gateway, GatewayError> {
        self.start_in(Some(Writes { folder, quiet: None }))
    }

    /// Serve the shares for tests of writing: what clients write goes to the buckets once it was quiet for this time.
    ///
    /// # Errors
    /// When one of the shares cannot be served; none is then.
    #[doc(hidden)]
    pub fn start_with_upload(self, folder: &Path, quiet: Duration) -> Result<Gateway, GatewayError> {
        self.start_in(Some(Writes { folder, quiet: Some(quiet) }))
    }

    fn start_in(self, writes: Option<Writes<'_>>) -> Result<Gateway, GatewayError> {
        seqferry_client::trace::show_warnings("seqferry gateway");
        let lock = claim(&self.state)?;
        let key = HandleKey::open(&self.state.join("handles.key")).map_err(|error| GatewayError(error.0))?;
        let cache = self.cache.as_ref().map(|(path, limits)| open_cache(path, limits)).transpose()?;
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.enable_all().thread_name("seqferry-gateway").worker_threads(THREADS).build();
        let runtime = runtime.map_err(|error| GatewayError(format!("the threads cannot be started: {error}")))?;
        let (max_requests, memory, max_bandwidth) = (self.max_requests, self.memory, self.max_bandwidth);
        let budget = Budget::new(BudgetLimits { max_requests, memory, max_bandwidth });
        let clients = ClientPool::new(Arc::clone(&budget));
        let pool = Pool::new(memory);
        let stop = CancellationToken::new();
        let (server, exports) = runtime.block_on(async {
            let (mut offered, mut exports) = (Vec::new(), Vec::new());
            for share in self.shares {
                let place = SharePlace { state: &self.state, writes, stop: &stop };
                let (export, nfs) = open_share(share, place, cache.clone(), &clients, Arc::clone(&pool)).await?;
                exports.push(export);
                offered.push(nfs);
            }
            let server = Server::bind(self.address, key, offered, ServerLimits::default()).await;
            Ok((server.map_err(|error| GatewayError(error.0))?, exports))
        })?;
        for export in &exports {
            export.maintain(runtime.handle());
        }
        let address = server.address();
        let serving = runtime.spawn(server.serve(stop.clone()));
        Ok(Gateway { address, stop, serving: Some(serving), exports, budget, runtime: Some(runtime), _lock: lock })
    }
}

/// Folder of what clients write, and the time after which it is uploaded. None: it stays there.
#[derive(Debug, Clone, Copy)]
struct Writes<'a> {
    folder: &'a Path,
    quiet: Option<Duration>,
}

/// Place of a share on this machine.
#[derive(Clone, Copy)]
struct SharePlace<'a> {
    state: &'a Path,
    writes: Option<Writes<'a>>,
    /// Ends uploads.
    stop: &'a CancellationToken,
}

/// Open the place of a share, and make it what the server serves.
async fn open_share(
    share: ShareSpec,
    place: SharePlace<'_>,
    cache: Option<Arc<CacheTier>>,
    clients: &ClientPool,
    pool: Arc<Pool>,
) -> Result<(Export, seqferry_nfs::Export), GatewayError> {
    let name = share.name;
    let of_share = |text: String| GatewayError(format!("share {name}: {text}"));
    let identity = format!("{name}\n{}\n{}\n{}", share.endpoint_name, share.tree.bucket, share.tree.prefix);
    let nfs = NfsExportSpec {
        name: name.clone(),
        clients: ClientList::parse(&share.clients).map_err(|error| of_share(error.0))?,
        squash: share.squash,
        anonymous_uid: share.anonymous.0,
        anonymous_gid: share.anonymous.1,
        identity: identity.clone(),
    };
    let endpoint = share.endpoint.clone();
    let (bucket, prefix) = (share.tree.bucket.clone(), share.tree.prefix.clone());
    let (prefix_length, lifetime) = (share.tree.prefix.len(), share.tree.lifetime);
    let spec = ExportSpec {
        endpoint: share.endpoint,
        endpoint_name: share.endpoint_name,
        tree: share.tree,
        freshness: Freshness::Ttl,
        archives: ArchiveView::Files,
        manifest: None,
        cache,
        pin: false,
        note,
    };
    let export = Export::open(spec, clients, pool).await.map_err(|error| of_share(error.0))?;
    let digest =
        Sha256::digest(identity.as_bytes()).iter().take(8).fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    let table = place.state.join(format!("{digest:016x}.handles"));
    let ids = FileTable::open(&table)
        .map_err(|error| of_share(format!("the table of file handles {} cannot be used: {error}", table.display())))?;
    let (files, defaults) = (Arc::clone(export.files()), share.defaults);
    let files: Arc<dyn Share> = match place.writes {
        None => Arc::new(BucketShare::new(files, ids, defaults)),
        Some(writes) => {
            let stale_after = lifetime.unwrap_or(Duration::MAX);
            let spec = WritableSpec { files, ids, defaults, identity, prefix_length, stale_after };
            let opened = WritableShare::open(spec, &writes.folder.join(format!("{digest:016x}"))).await;
            let opened = opened.map_err(|error| of_share(error.0))?;
            if let Some(quiet) = writes.quiet {
                let client = clients.client_until(&endpoint, RetryPolicy::default(), place.stop.clone()).await;
                let spec = UploadSpec {
                    client,
                    bucket,
                    prefix,
                    storage_class: None,
                    quiet,
                    part_size: None,
                    largest_copy: None,
                };
                let (share, stop) = (opened.clone(), place.stop.clone());
                tokio::spawn(async move { share.upload(spec, stop).await });
            }
            Arc::new(opened)
        }
    };
    let nfs = seqferry_nfs::Export::new(nfs, files).map_err(|error| of_share(error.0))?;
    Ok((export, nfs))
}

/// Make the folder, for this user alone, and keep other gateways out of it.
fn claim(folder: &Path) -> Result<File, GatewayError> {
    let cannot = |error| GatewayError(format!("the folder {} cannot be used: {error}", folder.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(cannot)?;
    let lock = fs::OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("lock"));
    let lock = lock.map_err(cannot)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => Err(GatewayError(format!(
            "another gateway uses {}: stop it, or name another folder with --state-dir",
            folder.display()
        ))),
        Err(fs::TryLockError::Error(error)) => Err(cannot(error)),
    }
}

fn open_cache(path: &Path, limits: &CacheLimits) -> Result<Arc<CacheTier>, GatewayError> {
    let cache = DiskCache::open(path, limits.clone()).map_err(|error| GatewayError(error.to_string()))?;
    let tier = CacheTier::new(Arc::new(cache), TierOptions::default());
    let tier = tier.map_err(|error| GatewayError(format!("the threads of the cache cannot be started: {error}")))?;
    Ok(Arc::new(tier))
}

fn note(text: &str) {
    use std::io::Write as _;
    // A log that cannot be written cannot be reported.
    let _written = writeln!(std::io::stderr(), "seqferry gateway: {text}");
}

impl Gateway {
    /// The address and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The probe of its threads. None once it has ended.
    pub fn probe(&self) -> Option<RuntimeProbe> {
        self.runtime.as_ref().map(|runtime| RuntimeProbe::new(runtime.handle()))
    }

    /// The budget of its requests.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Wait until the gateway has stopped, at most for this time. True when it has.
    pub fn wait(&mut self, limit: Duration) -> bool {
        let (Some(runtime), Some(serving)) = (&self.runtime, &mut self.serving) else { return true };
        let has_ended = runtime.block_on(async { tokio::time::timeout(limit, serving).await }).is_ok();
        if has_ended {
            self.serving = None;
        }
        has_ended
    }

    /// Stop: no call is accepted any more, and those under way end.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
        self.wait(GRACE);
        self.exports.iter().for_each(Export::save_names);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
