//! A bucket mounted by this process: runtime, budget, client, tree, reader and door put together.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seqferry_client::{ClientPool, EndpointSpec, RequestError, RetryPolicy};
use seqferry_store::{Budget, BudgetLimits, ErrorClass, ListRequest, StoreError};
use seqferry_vfs::disk_cache::{CacheTier, DiskCache, Limits, TierOptions};
use seqferry_vfs::tar::{TarFolders, TarOptions};
use seqferry_vfs::{
    Archives, BlockTier, ClientSource, FileSystem, Freshness, ObjectVersion, Pool, Reader, Source, Tree, TreeOptions,
    VersionPin,
};
use tokio::runtime::{Builder, Runtime};

use crate::options::{MountError, MountOptions};
use crate::session::{Mounted, start};

/// Threads of the runtime: two serve a saturated link, more cost more CPU per byte.
const THREADS: usize = 2;

/// How long requests are tried again: an outage of a minute must pass unnoticed but for the wait. 24 pauses of 5 s on average.
const RETRIES: RetryPolicy = RetryPolicy {
    attempts: 30,
    throttled_attempts: 30,
    base: Duration::from_millis(100),
    throttled_base: Duration::from_millis(500),
    most: Duration::from_secs(10),
};

/// What to mount.
#[derive(Debug, Clone)]
pub struct BucketMount {
    /// Where the bucket is and as whom to ask.
    pub endpoint: EndpointSpec,
    /// Name of the endpoint in inodes and caches: its URL, or one for AWS.
    pub endpoint_name: String,
    /// What is shown.
    pub tree: TreeOptions,
    /// How fresh objects have to be when they are opened.
    pub freshness: Freshness,
    /// Bytes of memory for blocks.
    pub memory: u64,
    /// Key of a tar archive that may be meant: where there is such an object, its members are the root.
    pub archive: Option<String>,
    /// A folder that keeps blocks beyond this process, and its bounds.
    pub cache: Option<(PathBuf, Limits)>,
    /// Requests in flight at most.
    pub max_requests: usize,
    /// Bytes per second at most.
    pub max_bandwidth: Option<u64>,
    /// The folder and its looks.
    pub options: MountOptions,
}

/// A bucket that is mounted. It is served until it is unmounted or this value is dropped.
#[derive(Debug)]
pub struct MountedBucket {
    mounted: Mounted,
    files: Arc<FileSystem>,
    runtime: Option<Runtime>,
}

impl BucketMount {
    /// Mount it. The folder can be used when this returns.
    ///
    /// # Errors
    /// When the bucket cannot be listed or the folder cannot be mounted; nothing is left mounted then.
    pub fn start(self) -> Result<MountedBucket, MountError> {
        let tier = self.cache.as_ref().map(|(path, limits)| open_cache(path, limits)).transpose()?;
        let mut builder = Builder::new_multi_thread();
        builder.enable_all().thread_name("seqferry-mount").worker_threads(THREADS);
        let runtime = builder.build().map_err(|error| MountError(format!("the threads cannot be started: {error}")))?;
        let limits =
            BudgetLimits { max_requests: self.max_requests, memory: self.memory, max_bandwidth: self.max_bandwidth };
        let clients = ClientPool::new(Budget::new(limits));
        let asked = runtime.block_on(async {
            let asking = clients.client(&self.endpoint, RetryPolicy::impatient()).await;
            let request = ListRequest {
                bucket: self.tree.bucket.clone(),
                prefix: self.tree.prefix.clone(),
                max_keys: Some(1),
                ..ListRequest::default()
            };
            asking.list_page(&request).await?;
            let demand = clients.interactive_client(&self.endpoint, RETRIES).await;
            Ok((demand, clients.client(&self.endpoint, RETRIES).await))
        });
        let (demand, ahead) = asked.map_err(|error: RequestError| cannot_list(error))?;
        let source: Arc<dyn Source> = Arc::new(ClientSource::new(demand, ahead, self.endpoint_name));
        let cache = tier.as_ref().map(|tier| Arc::clone(tier.cache()));
        let reader =
            Reader::new(Arc::clone(&source), Pool::new(self.memory), tier.map(|tier| tier as Arc<dyn BlockTier>));
        let folders = TarFolders::new(Arc::clone(&reader), Arc::clone(&source), cache, TarOptions::default());
        let archives = runtime.block_on(archives(folders, &source, &self.tree.bucket, self.archive.as_deref()))?;
        let tree = Tree::new(source, self.tree);
        let files = FileSystem::with_archives(tree, reader, self.freshness, Some(archives));
        let mounted = start(Arc::clone(&files), &self.options, runtime.handle())?;
        Ok(MountedBucket { mounted, files, runtime: Some(runtime) })
    }
}

/// Archives as folders; the one that was named, if it is there, as the root.
async fn archives(
    folders: Arc<TarFolders>,
    source: &Arc<dyn Source>,
    bucket: &str,
    archive: Option<&str>,
) -> Result<Archives, MountError> {
    let Some(key) = archive else { return Ok(Archives::new(folders)) };
    let meta = match source.head(bucket, key).await {
        Ok(meta) => meta,
        Err(error) if error.class == ErrorClass::NotFound => return Ok(Archives::new(folders)),
        Err(error) => return Err(MountError(sentence(&error))),
    };
    let version = ObjectVersion {
        endpoint: source.endpoint().into(),
        bucket: bucket.into(),
        key: key.into(),
        pin: VersionPin::Etag(meta.etag.into()),
        size: meta.size,
    };
    let rooted = Archives::rooted(folders, &version, meta.last_modified).await;
    rooted.map_err(|error| MountError(error.to_string()))
}

fn open_cache(path: &Path, limits: &Limits) -> Result<Arc<CacheTier>, MountError> {
    let cache = DiskCache::open(path, limits.clone()).map_err(|error| MountError(error.to_string()))?;
    let tier = CacheTier::new(Arc::new(cache), TierOptions::default());
    let tier = tier.map_err(|error| MountError(format!("the threads of the cache cannot be started: {error}")))?;
    Ok(Arc::new(tier))
}

fn cannot_list(error: RequestError) -> MountError {
    MountError(match error {
        RequestError::Failed(error) => sentence(&error),
        RequestError::Cancelled => "the request was cancelled".to_owned(),
    })
}

fn sentence(error: &StoreError) -> String {
    format!("{error}. {}", error.advice())
}

impl MountedBucket {
    /// Wait until the folder is unmounted, at most so long. True when it is.
    pub fn wait(&mut self, limit: Duration) -> bool {
        self.mounted.wait(limit)
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
        &self.files
    }
}

impl Drop for MountedBucket {
    /// Requests under way have lost their callers: their end is not waited for.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
