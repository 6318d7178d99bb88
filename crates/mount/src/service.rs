//! A bucket mounted by this process, which does nothing else: runtime, budget, client, tree, reader and door put
//! together.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seqferry_client::{Budget, BudgetLimits};
use seqferry_client::{ClientPool, EndpointSpec, RequestError, RetryPolicy};
use seqferry_store::{ErrorClass, ListRequest, ObjectRef, StoreError};
use seqferry_vfs::disk_cache::{CacheLimits, CacheTier, DiskCache, Prefix, TierOptions};
use seqferry_vfs::tar::{TarFolders, TarOptions};
use seqferry_vfs::{
    Archives, AuditReport, BlockTier, ClientSource, FileSystem, Freshness, Manifest, ManifestSource, ObjectVersion,
    Pool, Reader, Source, Tree, TreeOptions, VersionPin, VfsError,
};
use tokio::runtime::{Builder, Runtime};

use crate::log::note;
use crate::names::{NameTable, maintain};
use crate::options::{MountError, MountOptions};
use crate::session::{MountSession, start};

/// Threads of the runtime: two serve a saturated link, more cost more CPU per byte.
const THREADS: usize = 2;

/// Memory from which huge pages are worth it: they save a third of the CPU time of filling it, and cost up to 30 MiB that
/// hold nothing.
const HUGE_PAGES_FROM: u64 = 256 << 20;

/// Retry policy of a mount: programs notice an outage of a minute only by the wait. 24 pauses of 5 s on average.
const RETRIES: RetryPolicy = RetryPolicy {
    attempts: 30,
    throttled_attempts: 30,
    base: Duration::from_millis(100),
    throttled_base: Duration::from_millis(500),
    // Half a minute to a minute: what writes a file of credentials, or answers for them, may be late.
    credentials_attempts: 12,
    credentials_base: Duration::from_millis(500),
    awaits_credentials: true,
    most: Duration::from_secs(10),
};

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
    files: Arc<FileSystem>,
    names: Option<Arc<NameTable>>,
    runtime: Option<Runtime>,
}

impl BucketMount {
    /// Mount it. The folder can be used when this returns.
    ///
    /// # Errors
    /// When the bucket cannot be listed or the folder cannot be mounted; nothing is left mounted then.
    pub fn start(self) -> Result<MountedBucket, MountError> {
        if self.memory < HUGE_PAGES_FROM {
            // For the whole process, which does nothing else. Where the kernel has no such switch, it costs memory only.
            let _ = rustix::thread::disable_transparent_huge_pages(true);
        }
        let tier = self.cache.as_ref().map(|(path, limits)| open_cache(path, limits)).transpose()?;
        let mut builder = Builder::new_multi_thread();
        builder.enable_all().thread_name("seqferry-mount").worker_threads(THREADS);
        let runtime = builder.build().map_err(|error| MountError(format!("the threads cannot be started: {error}")))?;
        let limits =
            BudgetLimits { max_requests: self.max_requests, memory: self.memory, max_bandwidth: self.max_bandwidth };
        let clients = ClientPool::new(Budget::new(limits));
        let manifest = self.manifest.as_deref().map(|path| Manifest::read(path, &self.tree.prefix));
        let manifest = manifest.transpose().map_err(|error| MountError(error.to_string()))?;
        let (demand, ahead) = runtime.block_on(async {
            if manifest.is_none() {
                let something = check_bucket(&clients, &self.endpoint, &self.tree).await.map_err(cannot_list)?;
                if !something && self.archive.is_none() {
                    check_no_object(&clients, &self.endpoint, &self.tree).await?;
                }
            }
            let demand = clients.interactive_client(&self.endpoint, RETRIES).await;
            Ok((demand, clients.client(&self.endpoint, RETRIES).await))
        })?;
        let mut source: Arc<dyn Source> = Arc::new(ClientSource::new(demand, ahead, self.endpoint_name.clone()));
        let has_manifest = manifest.is_some();
        if let Some(manifest) = manifest {
            source = Arc::new(ManifestSource::new(manifest, source));
        }
        let cache = tier.as_ref().map(|tier| Arc::clone(tier.cache()));
        let below = tier.map(|tier| tier as Arc<dyn BlockTier>);
        let reader = Reader::with_lifetime(Arc::clone(&source), Pool::new(self.memory), below, self.tree.lifetime);
        let folders = TarFolders::new(Arc::clone(&reader), Arc::clone(&source), cache.clone(), TarOptions::default());
        let archives = runtime.block_on(archives(folders, &source, &self.tree.bucket, self.archive.as_deref()))?;
        let (bucket, prefix) = (self.tree.bucket.clone(), self.tree.prefix.clone());
        let place = Prefix { endpoint: self.endpoint_name, bucket, prefix };
        let tree = Tree::new(source, self.tree);
        let names = cache.as_ref().filter(|_| !has_manifest).map(|cache| {
            let _inside = runtime.enter();
            Arc::new(NameTable::open(Arc::clone(&tree), cache.table_of_names(&place)))
        });
        let files = FileSystem::with_archives(tree, reader, self.freshness, Some(archives));
        let mounted = start(Arc::clone(&files), &self.options, runtime.handle())?;
        if let Some(cache) = cache {
            if self.pin
                && let Err(error) = cache.pin(place)
            {
                note(&format!("cannot pin in the cache {}: {error}; objects go as others do", cache.path().display()));
            }
            maintain(runtime.handle(), cache, names.clone());
        }
        Ok(MountedBucket { mounted, files, names, runtime: Some(runtime) })
    }
}

/// Checks that the bucket exists and may be listed; returns true when there is an object below the prefix.
async fn check_bucket(clients: &ClientPool, endpoint: &EndpointSpec, tree: &TreeOptions) -> Result<bool, RequestError> {
    let asking = clients.client(endpoint, RetryPolicy::impatient()).await;
    let (bucket, prefix) = (tree.bucket.clone(), tree.prefix.clone());
    let request = ListRequest { bucket, prefix, max_keys: Some(1), ..ListRequest::default() };
    asking.list_page(&request).await.map(|page| !page.objects.is_empty())
}

/// Refuses the key of an object where a prefix is needed: the folder would be empty. An empty prefix may be mounted.
async fn check_no_object(clients: &ClientPool, endpoint: &EndpointSpec, tree: &TreeOptions) -> Result<(), MountError> {
    let key = tree.prefix.trim_end_matches('/');
    if key.is_empty() {
        return Ok(());
    }
    let asking = clients.client(endpoint, RetryPolicy::impatient()).await;
    if asking.head(ObjectRef::new(&tree.bucket, key)).await.is_err() {
        return Ok(());
    }
    let parent = key.rfind('/').map_or("", |slash| &key[..=slash]);
    let bucket = &tree.bucket;
    Err(MountError(format!(
        "s3://{bucket}/{key} is an object, and a folder shows what is below a prefix: mount s3://{bucket}/{parent}"
    )))
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
        check_bucket(&clients, endpoint, &tree).await.map_err(cannot_list)?;
        let client = clients.client(endpoint, RetryPolicy::default()).await;
        let source = Arc::new(ClientSource::new(client.clone(), client, endpoint_name));
        let tree = Tree::new(source, TreeOptions { lifetime: None, ..tree });
        tree.audit(most).await.map_err(|error| MountError(error.to_string()))
    });
    runtime.shutdown_background();
    audited
}

/// Archives as folders; the one that was named, if it is there, as the root.
async fn archives(
    folders: Arc<TarFolders>,
    source: &Arc<dyn Source>,
    bucket: &str,
    archive: Option<&str>,
) -> Result<Archives, MountError> {
    let Some(key) = archive else { return Ok(Archives::new(folders)) };
    let meta = match source.head(ObjectRef::new(bucket, key)).await {
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
    rooted.map_err(|error| match error {
        VfsError::BadArchive(text) => {
            let parent = key.rfind('/').map_or("", |slash| &key[..=slash]);
            MountError(format!("{text}. To read it as a file, mount s3://{bucket}/{parent}"))
        }
        other => MountError(other.to_string()),
    })
}

fn open_cache(path: &Path, limits: &CacheLimits) -> Result<Arc<CacheTier>, MountError> {
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
    /// Wait until the folder is unmounted, at most for this time. True when it is.
    pub fn wait(&mut self, limit: Duration) -> bool {
        let has_ended = self.mounted.wait(limit);
        if has_ended && let Some(names) = self.names.take() {
            names.save();
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
        &self.files
    }
}

impl Drop for MountedBucket {
    /// Requests under way have lost their callers: their end is not waited for.
    fn drop(&mut self) {
        if let Some(names) = self.names.take() {
            names.save();
        }
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
        let client = RetryingClient::new(endpoint, budget, RETRIES, CancellationToken::new(), metrics);
        let source: Arc<dyn Source> = Arc::new(ClientSource::new(client.clone(), client, "memory".to_owned()));
        let tree = Tree::new(Arc::clone(&source), TreeOptions::bucket("b"));
        let files = FileSystem::new(tree, Reader::new(source, Pool::new(0), None), Freshness::Ttl);
        let found = files.lookup(seqferry_vfs::ROOT, "k").await.unwrap().attributes.unwrap();

        store.rule(Rule::always("GetObject", Fault::Fail("ServiceUnavailable", 503)));
        let began = Instant::now();
        let healing = Arc::clone(&store);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_mins(1)).await;
            healing.heal();
        });
        let handle = files.open(found.inode).await.unwrap();

        assert_eq!(files.read(handle, 0, 100).await.unwrap().to_bytes(), "bytes");
        assert!(began.elapsed() >= Duration::from_mins(1));
    }
}
