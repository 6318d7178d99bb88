//! A bucket mounted by this process, which does nothing else: runtime, budget, client, tree, reader and interface put
//! together.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seqferry_client::{Budget, BudgetLimits, ClientPool, EndpointSpec, RetryPolicy};
use seqferry_store::Advice;
use seqferry_vfs::disk_cache::{CacheLimits, CacheTier, DiskCache, TierOptions};
use seqferry_vfs::{
    ArchiveView, AuditReport, BucketFiles, BucketFilesSpec, ClientSource, FileSystem, Freshness, Pool, Tree,
    TreeOptions, check_bucket,
};
use tokio::runtime::{Builder, Runtime};

use crate::log::log_line;
use crate::options::{MountError, MountOptions};
use crate::session::{MountSession, start};

/// Threads of the runtime: two serve a saturated link, more cost more CPU per byte.
const THREADS: usize = 2;

/// Memory from which huge pages are worth it: they save a third of the CPU time of filling it, and cost up to 30 MiB
/// that hold nothing.
const HUGE_PAGES_FROM: u64 = 256 << 20;

/// Specification of a mount: bucket, cache, limits and folder.
#[derive(Debug, Clone)]
pub struct BucketMount {
    /// Endpoint of the bucket, and the credentials for it.
    pub endpoint: EndpointSpec,
    /// Name of the endpoint in inodes and caches: its URL, or one for AWS.
    pub endpoint_name: String,
    /// Bucket and prefix to show, and how long names stay valid.
    pub tree: TreeOptions,
    /// Required freshness of objects when they are opened.
    pub freshness: Freshness,
    /// Bytes of memory for blocks.
    pub memory: u64,
    /// Key of a tar archive that may be meant: where there is such an object, its members are the root.
    pub archive: Option<String>,
    /// A file that fixes names, sizes and versions: nothing is listed.
    pub manifest: Option<PathBuf>,
    /// A folder that keeps blocks and names beyond this process, and its bounds.
    pub cache: Option<(PathBuf, CacheLimits)>,
    /// Keep what is read in the cache: other objects never push it out.
    pub pin: bool,
    /// Requests in flight at most.
    pub max_requests: usize,
    /// Bytes per second at most.
    pub max_bandwidth: Option<u64>,
    /// The folder and the attributes of its files.
    pub options: MountOptions,
}

/// A bucket that is mounted. It is served until it is unmounted or this value is dropped.
#[derive(Debug)]
pub struct MountedBucket {
    mounted: MountSession,
    bucket_files: BucketFiles,
    runtime: Option<Runtime>,
}

impl BucketMount {
    /// Mount it. The folder can be used when this returns.
    ///
    /// # Errors
    /// When the bucket cannot be listed or the folder cannot be mounted; nothing is left mounted then.
    pub fn start(self) -> Result<MountedBucket, MountError> {
        if self.memory < HUGE_PAGES_FROM {
            // For the whole process, which does nothing else. Where the kernel has no such switch, it costs memory
            // only.
            let _ = rustix::thread::disable_transparent_huge_pages(true);
        }
        let tier = self.cache.as_ref().map(|(path, limits)| open_cache(path, limits)).transpose()?;
        let mut builder = Builder::new_multi_thread();
        builder.enable_all().thread_name("seqferry-mount").worker_threads(THREADS);
        let runtime = builder.build().map_err(|error| MountError(format!("the threads cannot be started: {error}")))?;
        let limits =
            BudgetLimits { max_requests: self.max_requests, memory: self.memory, max_bandwidth: self.max_bandwidth };
        let clients = ClientPool::new(Budget::new(limits));
        let spec = BucketFilesSpec {
            endpoint: self.endpoint,
            endpoint_name: self.endpoint_name,
            tree: self.tree,
            freshness: self.freshness,
            archives: self.archive.map_or(ArchiveView::Folders, ArchiveView::Root),
            manifest: self.manifest,
            cache: tier,
            pin: self.pin,
            allows_unreachable: false,
            note: log_line,
        };
        let opened = runtime.block_on(BucketFiles::open(spec, &clients, Pool::new(self.memory)));
        let bucket_files = opened.map_err(|error| MountError(error.0))?;
        let mounted = start(bucket_files.files(), &self.options, runtime.handle())?;
        Advice::serve();
        bucket_files.maintain(runtime.handle());
        Ok(MountedBucket { mounted, bucket_files, runtime: Some(runtime) })
    }
}

/// Walk over everything that a mount would show, and name up to `most` keys that it would hide.
///
/// # Errors
/// When the bucket cannot be listed.
pub fn audit(
    endpoint: &EndpointSpec,
    endpoint_name: String,
    tree: TreeOptions,
    most: usize,
) -> Result<AuditReport, MountError> {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.enable_all().worker_threads(THREADS).build();
    let runtime = runtime.map_err(|error| MountError(format!("the threads cannot be started: {error}")))?;
    let clients = ClientPool::new(Budget::new(BudgetLimits::default()));
    let audited = runtime.block_on(async {
        check_bucket(&clients, endpoint, &tree).await.map_err(|error| MountError(error.0))?;
        let client = clients.client(endpoint, RetryPolicy::default()).await;
        let source = Arc::new(ClientSource::new(client.clone(), client, endpoint_name));
        let tree = Tree::new(source, TreeOptions { lifetime: None, ..tree });
        tree.audit(most).await.map_err(|error| MountError(error.to_string()))
    });
    runtime.shutdown_background();
    audited
}

fn open_cache(path: &Path, limits: &CacheLimits) -> Result<Arc<CacheTier>, MountError> {
    let cache = DiskCache::open(path, limits.clone()).map_err(|error| MountError(error.to_string()))?;
    let tier = CacheTier::new(Arc::new(cache), TierOptions::default());
    let tier = tier.map_err(|error| MountError(format!("the threads of the cache cannot be started: {error}")))?;
    Ok(Arc::new(tier))
}

impl MountedBucket {
    /// Wait until the folder is unmounted, at most for this time. True when it is.
    pub fn wait(&mut self, limit: Duration) -> bool {
        let has_ended = self.mounted.wait(limit);
        if has_ended {
            self.bucket_files.save_names();
        }
        has_ended
    }

    /// Unmount the folder; where it is in use, its session ends with the last open file.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn unmount(&self) -> Result<(), MountError> {
        self.mounted.unmount()
    }

    /// The files.
    pub fn files(&self) -> &Arc<FileSystem> {
        self.bucket_files.files()
    }
}

impl Drop for MountedBucket {
    /// Requests under way have lost their callers: their end is not waited for.
    fn drop(&mut self) {
        self.bucket_files.save_names();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use seqferry_client::{Endpoint, RequestMetrics, RetryingClient};
    use seqferry_store::Attributes;
    use seqferry_store::prelude::*;
    use seqferry_store_testing::fault::{Fault, FaultStore, Rule};
    use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
    use seqferry_vfs::{FILE_RETRIES, Reader, Source};
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_outage_of_a_minute_delays_a_read_and_does_not_fail_it() {
        let memory = MemoryStore::new(1);
        memory.create_bucket("b");
        let store = Arc::new(FaultStore::new(Arc::new(memory)));
        store.put("b", "k", Bytes::from_static(b"bytes"), &Attributes::default()).await.unwrap();
        let endpoint = Endpoint::new(Arc::clone(&store) as Arc<dyn ObjectStore>);
        let budget = Budget::new(BudgetLimits::default());
        let metrics = Arc::new(RequestMetrics::default());
        let client = RetryingClient::new(endpoint, budget, FILE_RETRIES, CancellationToken::new(), metrics);
        let source: Arc<dyn Source> = Arc::new(ClientSource::new(client.clone(), client, "memory".to_owned()));
        let tree = Tree::new(Arc::clone(&source), TreeOptions::bucket("b"));
        let files = FileSystem::new(tree, Reader::new(source, Pool::new(0), None), Freshness::Ttl);
        let found = files.lookup(seqferry_vfs::ROOT, "k").await.unwrap().attributes.unwrap();

        store.rule(Rule::always("GetObject", Fault::Fail("ServiceUnavailable", 503)));
        let began = Instant::now();
        let healing = Arc::clone(&store);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_mins(1)).await;
            healing.clear_rules();
        });
        let handle = files.open(found.inode).await.unwrap();

        assert_eq!(files.read(handle, 0, 100).await.unwrap().to_bytes(), "bytes");
        assert!(began.elapsed() >= Duration::from_mins(1));
    }
}
