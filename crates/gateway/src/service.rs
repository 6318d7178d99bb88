//! Shares served by this process: runtime, budget, cache, files and server put together.

mod uploads;

use std::fs::{self, DirBuilder, File};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use seqferry_client::{Budget, BudgetLimits, ClientPool, EndpointSpec, RetryPolicy, RuntimeProbe};
use seqferry_nfs::{ClientList, ExportSpec as NfsExportSpec, HandleKey, PortMapping, Published, Server};
use seqferry_nfs::{ServerLimits, Squash};
use seqferry_share::Share;
use seqferry_store::{Advice, ObjectUri};
use seqferry_vfs::disk_cache::{CacheLimits, CacheOpenError, CacheTier, DiskCache, TierOptions};
use seqferry_vfs::{ArchiveView, BucketFiles, BucketFilesSpec, Freshness, Pool, TreeOptions};
use sha2::{Digest as _, Sha256};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::claimed_cache::{ClaimedCache, check_file_system};
use crate::control::{ClientLimits, ControlSocket, GatewayControl, ShareControl, UploadBatch, take_from_unmounted};
use crate::error::GatewayError;
use crate::file_table::FileTable;
use crate::prefix_claim::{ClaimSpec, PrefixClaim};
use crate::share::{BucketShare, ShareDefaults};
use crate::share_overlaps::{SharePrefix, check_overlaps};
use crate::writable_share::{UploadSpec, WritableShare, WritableSpec};
use crate::write_probe::probe_write_access;
use crate::write_settings::WriteSettings;
use uploads::{RunningUpload, ShareUpload, claim_prefixes};

/// Threads of the runtime: two serve a saturated link; more clients than those of one machine keep more busy.
const THREADS: usize = 4;
/// Longest wait for calls under way when the gateway stops.
const CALL_GRACE: Duration = Duration::from_secs(15);
/// Longest wait for tasks to end that hold locks, and for work of the disk.
const TASK_GRACE: Duration = Duration::from_secs(1);

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
    /// Attributes of files that store none.
    pub defaults: ShareDefaults,
    /// Settings for writing. None: the share is read-only.
    pub writes: Option<WriteSettings>,
}

/// Specification of a gateway.
#[derive(Debug, Clone)]
pub struct GatewaySpec {
    /// Address and port of NFS. None: the shares are used within this process, by FUSE.
    pub address: Option<SocketAddr>,
    /// Let clients find the port by the port mapper. None: they name it when they mount.
    pub port_mapping: Option<PortMapping>,
    /// A folder for the key and the table of handles. Handles stay valid as long as it is kept.
    pub state: PathBuf,
    /// A folder that keeps blocks and names beyond this process, and its bounds. Written files stay there until each is
    /// in the bucket: writable shares need it.
    pub cache: Option<(PathBuf, CacheLimits)>,
    /// Accept a cache that is not on a local disk for writable shares.
    pub unsafe_cache: bool,
    /// Write also where another cache has claimed a prefix: its uploads end.
    pub take_over: bool,
    /// Bytes of memory for blocks.
    pub memory: u64,
    /// Requests in flight at most.
    pub max_requests: usize,
    /// Bytes per second at most.
    pub max_bandwidth: Option<u64>,
    /// The shares.
    pub shares: Vec<ShareSpec>,
}

/// A gateway that serves its shares until it is stopped or dropped.
#[derive(Debug)]
pub struct Gateway {
    address: Option<SocketAddr>,
    published: Option<Result<Published, GatewayError>>,
    stop: CancellationToken,
    serving: Option<JoinHandle<()>>,
    exports: Vec<BucketFiles>,
    budget: Arc<Budget>,
    controlled: Arc<GatewayControl>,
    runtime: Option<Runtime>,
    /// Held as long as the folders are in use.
    _lock: File,
    _cache: Option<ClaimedCache>,
}

/// A look at a gateway while it serves.
#[derive(Debug, Clone)]
pub struct GatewayMonitor {
    controlled: Arc<GatewayControl>,
    runtime: Handle,
}

impl GatewayMonitor {
    /// The state of all shares, as one line of JSON.
    pub fn status(&self) -> String {
        self.runtime.block_on(self.controlled.status())
    }

    /// Upload batches that are not on record. Also when the shares are not served any more.
    pub fn upload_batches(&self) -> Vec<UploadBatch> {
        self.controlled.upload_batches(&self.runtime)
    }

    /// Put the outcomes of all uploads into batches.
    ///
    /// # Errors
    /// When the disk does not take them: they stay in the journal.
    pub fn freeze_upload_batches(&self) -> Result<(), GatewayError> {
        self.runtime.block_on(self.controlled.freeze()).map_err(GatewayError)
    }
}

impl GatewaySpec {
    /// Serve the shares. They can be mounted when this returns.
    ///
    /// # Errors
    /// When one of the shares cannot be served; none is then.
    pub fn start(self) -> Result<Gateway, GatewayError> {
        seqferry_client::trace::show_warnings("seqferry gateway");
        if self.address.is_none()
            && let Some((cache, _)) = &self.cache
        {
            let source = self.shares.first().map(|share| ObjectUri(&share.tree.bucket, Some(&share.tree.prefix)));
            take_from_unmounted(cache, &source.map(|source| source.to_string()).unwrap_or_default())?;
        }
        let lock = claim(&self.state)?;
        let key = HandleKey::open(&self.state.join("handles.key")).map_err(|error| GatewayError(error.0))?;
        let caches = self.open_caches()?;
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.enable_all().thread_name("seqferry-gateway").worker_threads(THREADS).build();
        let runtime = runtime.map_err(|error| GatewayError(format!("the threads cannot be started: {error}")))?;
        let (max_requests, memory, max_bandwidth) = (self.max_requests, self.memory, self.max_bandwidth);
        let budget = Budget::new(BudgetLimits { max_requests, memory, max_bandwidth });
        let clients = ClientPool::new(Arc::clone(&budget));
        let pool = Pool::new(memory);
        let stop = CancellationToken::new();
        let claimed = caches.claimed.as_ref();
        let is_written = self.shares.iter().any(|share| share.writes.is_some());
        let cache_id = claimed.filter(|_| is_written).map(ClaimedCache::id).transpose()?;
        let opening = async {
            let (mut offered, mut opened) = (Vec::new(), Vec::new());
            for share in self.shares {
                let (state, cache_id, take_over) = (&self.state, cache_id.as_deref(), self.take_over);
                let place = ShareContext { state, writes: claimed, cache_id, take_over, stop: &stop };
                let opening = open_share(share, place, caches.blocks.clone(), &clients, Arc::clone(&pool));
                let (one, nfs) = Box::pin(opening).await?;
                opened.push(one);
                offered.push(nfs);
            }
            let server = match self.address {
                Some(address) => Some(Server::bind(address, key, offered, ServerLimits::default()).await),
                None => None,
            };
            let socket = claimed.map(|cache| ControlSocket::bind(cache.path())).transpose()?;
            claim_prefixes(&opened).await?;
            Ok((server.transpose().map_err(|error| GatewayError(error.0))?, socket, opened))
        };
        let (mut server, socket, opened) = runtime.block_on(opening)?;
        let address = server.as_ref().map(Server::address);
        let published = match (&mut server, &self.port_mapping) {
            (Some(server), Some(mapping)) => {
                Some(runtime.block_on(server.publish(mapping)).map_err(|error| GatewayError(error.0)))
            }
            _ => None,
        };
        // Everything can be served. Before this nothing was changed in a bucket but for the claims.
        Advice::serve();
        let (mut exports, mut shares, mut uploads) = (Vec::new(), Vec::new(), Vec::new());
        for one in opened {
            one.bucket_files.maintain(runtime.handle());
            if let (Some(ShareUpload { spec, claim, .. }), Some(writable)) =
                (one.written, one.controlled.writable.clone())
            {
                let (upload_batches, until) = (writable.clone(), stop.clone());
                runtime.spawn(async move { upload_batches.run_batching(until).await });
                let (kept, until) = (Arc::clone(&claim), stop.clone());
                let keeper = runtime.spawn(async move { kept.keep(until).await });
                let (uploaded, until) = (writable.clone(), stop.clone());
                let task = runtime.spawn(async move { uploaded.upload(spec, until).await });
                uploads.push(RunningUpload { task, keeper, writable, claim });
            }
            exports.push(one.bucket_files);
            shares.push(one.controlled);
        }
        let controlled = Arc::new(GatewayControl {
            shares,
            address: address.map_or_else(String::new, |address| address.to_string()),
            started: Instant::now(),
            is_draining: AtomicBool::new(false),
            stop: stop.clone(),
            client_limits: ClientLimits::default(),
        });
        let counted = Arc::clone(&controlled);
        runtime.spawn(async move { counted.load_conflict_count().await });
        let closed = CancellationToken::new();
        let controls = socket.map(|socket| runtime.spawn(socket.serve(Arc::clone(&controlled), closed.clone())));
        let calls = server.map(|server| server.serve(stop.clone()));
        let ended = stop.clone();
        let serving = runtime.spawn(async move {
            match calls {
                Some(calls) => calls.await,
                None => ended.cancelled().await,
            }
            futures::future::join_all(uploads.into_iter().map(RunningUpload::end)).await;
            closed.cancel();
            if let Some(controls) = controls {
                // A process that waits for the end finds no socket then.
                let _ended = controls.await;
            }
        });
        let (serving, runtime, claimed) = (Some(serving), Some(runtime), caches.claimed);
        Ok(Gateway {
            address,
            published,
            stop,
            serving,
            exports,
            budget,
            controlled,
            runtime,
            _lock: lock,
            _cache: claimed,
        })
    }

    /// Open the cache of blocks, and claim its folder where a share writes to it.
    fn open_caches(&self) -> Result<Caches, GatewayError> {
        let written: Vec<u64> = self.shares.iter().filter(|share| share.writes.is_some()).map(digest_of).collect();
        check_overlaps(&self.shares.iter().map(prefix_of).collect::<Vec<_>>())?;
        let Some((path, limits)) = &self.cache else {
            let Some(share) = self.shares.iter().find(|share| share.writes.is_some()) else {
                return Ok(Caches { blocks: None, claimed: None });
            };
            return Err(GatewayError(format!(
                "the share {} can be written, and there is no folder for what clients write: name one on a local disk \
                 with --cache",
                share.name
            )));
        };
        if !written.is_empty() {
            check_file_system(path, self.unsafe_cache)?;
        }
        let blocks = match open_cache(path, limits) {
            // Blocks are no nearer there than the bucket.
            Err(CacheOpenError::Remote { .. }) if self.unsafe_cache && !written.is_empty() => None,
            opened => Some(opened.map_err(|error| GatewayError(error.to_string()))?),
        };
        let blocks = blocks.map(|cache| CacheTier::new(Arc::new(cache), TierOptions::default())).transpose();
        let blocks =
            blocks.map_err(|error| GatewayError(format!("the threads of the cache cannot be started: {error}")))?;
        let claimed = ClaimedCache::claim(path, !written.is_empty())?;
        if let Some(claimed) = &claimed {
            claimed.check_leftovers(&written)?;
        }
        Ok(Caches { blocks: blocks.map(Arc::new), claimed })
    }
}

/// The cache of blocks, and the claim on its folder.
struct Caches {
    blocks: Option<Arc<CacheTier>>,
    claimed: Option<ClaimedCache>,
}

/// Place of a share on this machine.
#[derive(Clone, Copy)]
struct ShareContext<'a> {
    state: &'a Path,
    writes: Option<&'a ClaimedCache>,
    /// Id of that cache, where a share is written.
    cache_id: Option<&'a str>,
    take_over: bool,
    /// Ends uploads.
    stop: &'a CancellationToken,
}

/// A share that can be served.
struct OpenedShare {
    bucket_files: BucketFiles,
    controlled: ShareControl,
    written: Option<ShareUpload>,
}

/// Identity of a share: its journal and its handles belong to it alone.
fn identity_of(share: &ShareSpec) -> String {
    format!("{}\n{}\n{}\n{}", share.name, share.endpoint_name, share.tree.bucket, share.tree.prefix)
}

fn prefix_of(share: &ShareSpec) -> SharePrefix<'_> {
    SharePrefix {
        name: &share.name,
        endpoint: &share.endpoint_name,
        bucket: &share.tree.bucket,
        prefix: &share.tree.prefix,
        is_writable: share.writes.is_some(),
    }
}

fn digest_of(share: &ShareSpec) -> u64 {
    Sha256::digest(identity_of(share).as_bytes()).iter().take(8).fold(0, |all, byte| all << 8 | u64::from(*byte))
}

/// Open the place of a share, and make it what the server serves.
async fn open_share(
    share: ShareSpec,
    place: ShareContext<'_>,
    cache: Option<Arc<CacheTier>>,
    clients: &ClientPool,
    pool: Arc<Pool>,
) -> Result<(OpenedShare, seqferry_nfs::Export), GatewayError> {
    let (identity, digest) = (identity_of(&share), digest_of(&share));
    let name = share.name;
    let of_share = |text: String| GatewayError(format!("share {name}: {text}"));
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
    let stale_after = share.tree.lifetime.unwrap_or(Duration::MAX);
    let table = place.state.join(format!("{digest:016x}.handles"));
    let journal = place.writes.map(|cache| cache.folder_of(digest).join("journal"));
    let has_journal = journal.is_some_and(|journal| journal.exists());
    let spec = BucketFilesSpec {
        endpoint: share.endpoint,
        endpoint_name: share.endpoint_name,
        tree: share.tree,
        freshness: Freshness::Ttl,
        archives: ArchiveView::Files,
        manifest: None,
        cache,
        pin: false,
        allows_unreachable: has_journal || table.exists(),
        note: log_line,
    };
    let bucket_files = BucketFiles::open(spec, clients, pool).await.map_err(|error| of_share(error.0))?;
    let file_table = FileTable::open(&table)
        .map_err(|error| of_share(format!("the table of file handles {} cannot be used: {error}", table.display())))?;
    let (files, defaults) = (Arc::clone(bucket_files.files()), share.defaults);
    let written = share.writes.zip(place.writes.zip(place.cache_id));
    let (served, repeats, writable, written): (Arc<dyn Share>, _, _, _) = match written {
        None => {
            let opened = BucketShare::new(files, file_table, defaults);
            let repeats = opened.repeats();
            (Arc::new(opened), repeats, None, None)
        }
        Some((writes, (cache, id))) => {
            let asking = clients.client(&endpoint, RetryPolicy::impatient()).await;
            // Where there is a journal, the first upload sees whether the bucket can be written.
            if bucket_files.is_reachable() && !has_journal {
                let probed = probe_write_access(asking.clone(), &bucket, &prefix, &writes.objects).await;
                probed.map_err(|error| of_share(error.0))?;
            }
            let prefix_length = prefix.len();
            let spec = WritableSpec { files, file_table, defaults, identity, prefix_length, stale_after };
            let opened = WritableShare::open(spec, &cache.folder_of(digest)).await;
            let opened = opened.map_err(|error| of_share(error.0))?;
            let client = clients.client_until(&endpoint, RetryPolicy::default(), place.stop.clone()).await;
            let (bucket, prefix) = (bucket.clone(), prefix.clone());
            let (objects, quiet) = (writes.objects.clone(), writes.settle);
            let (part_size, long, largest_copy) = (None, None, None);
            let spec = UploadSpec { client, bucket, prefix, objects, quiet, part_size, long, largest_copy };
            let (ignored, rules) = writes.rules();
            opened.set_rules(ignored, rules);
            let claim = PrefixClaim::new(ClaimSpec {
                client: asking,
                bucket: spec.bucket.clone(),
                prefix: spec.prefix.clone(),
                write: writes.objects.write_options(),
                cache: id.to_owned(),
                share: name.clone(),
                take_over: place.take_over,
            });
            let claim = Arc::new(claim);
            opened.set_claim(Arc::clone(&claim));
            let written = ShareUpload { spec, claim, is_reachable: bucket_files.is_reachable(), has_journal };
            (Arc::new(opened.clone()), opened.repeats(), Some(opened), Some(written))
        }
    };
    let nfs = seqferry_nfs::Export::new(nfs, Arc::clone(&served)).map_err(|error| of_share(error.0))?;
    let controlled = ShareControl {
        name,
        source: ObjectUri(&bucket, Some(&prefix)).to_string(),
        bucket,
        prefix,
        share: served,
        files: Arc::clone(bucket_files.files()),
        writable,
        repeats,
        client: clients.interactive_client(&endpoint, RetryPolicy::impatient()).await,
    };
    Ok((OpenedShare { bucket_files, controlled, written }, nfs))
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

fn open_cache(path: &Path, limits: &CacheLimits) -> Result<DiskCache, CacheOpenError> {
    DiskCache::open(path, limits.clone())
}

fn log_line(text: &str) {
    use std::io::Write as _;
    // A log that cannot be written cannot be reported.
    let _written = writeln!(std::io::stderr(), "seqferry gateway: {text}");
}

impl Gateway {
    /// The address and port of NFS, if it is served.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The way in which clients find the port, or the reason why they do not. None: they are not to find it.
    pub fn published(&self) -> Option<&Result<Published, GatewayError>> {
        self.published.as_ref()
    }

    /// The first share, for FUSE in this process, with the runtime that serves it. None once the gateway has ended.
    pub fn first_share(&self) -> Option<(Arc<dyn Share>, &Handle)> {
        let share = self.controlled.shares.first()?;
        Some((Arc::clone(&share.share), self.runtime.as_ref()?.handle()))
    }

    /// Upload everything that is to be in a bucket, and end the gateway then. Changes are held meanwhile. Returns
    /// immediately.
    pub fn drain(&self) {
        if let Some(runtime) = &self.runtime {
            let _inside = runtime.enter();
            self.controlled.begin_drain();
        }
    }

    /// The probe of its threads. None once it has ended.
    pub fn probe(&self) -> Option<RuntimeProbe> {
        self.runtime.as_ref().map(|runtime| RuntimeProbe::new(runtime.handle()))
    }

    /// A look at it from other threads. None once it has ended.
    pub fn monitor(&self) -> Option<GatewayMonitor> {
        let runtime = self.runtime.as_ref()?.handle().clone();
        Some(GatewayMonitor { controlled: Arc::clone(&self.controlled), runtime })
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
        self.wait(CALL_GRACE);
        self.exports.iter().for_each(BucketFiles::save_names);
        if let Some(runtime) = self.runtime.take() {
            // Tasks hold the locks of journals, which the next process needs.
            runtime.shutdown_timeout(TASK_GRACE);
        }
    }
}

#[cfg(test)]
mod tests;
