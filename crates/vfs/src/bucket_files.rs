//! Opening of a bucket or prefix as files, for each interface: checks, source, cache, reader, tree and archives.
//!
//! Budget, pool and runtime belong to the process, which may open many.

mod names;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use seqferry_client::{ClientPool, EndpointSpec, RequestError, RetryPolicy};
use seqferry_store::{ErrorClass, ListRequest, ObjectRef, StoreError};
use tokio::runtime::Handle;

use crate::client_source::ClientSource;
use crate::disk_cache::{CacheTier, Prefix};
use crate::error::VfsError;
use crate::filesystem::{Archives, FileSystem, Freshness};
use crate::manifest::{Manifest, ManifestSource};
use crate::pool::Pool;
use crate::reader::Reader;
use crate::source::{BlockTier, Source};
use crate::tar::{TarFolders, TarOptions};
use crate::tree::{Tree, TreeOptions, upload_time};
use crate::version::{ObjectVersion, VersionPin};
use names::{NameTable, maintain};

/// Names that are remembered where the first version of each stays.
const FROZEN_NAMES: usize = 10_000_000;

/// Retry policy of files: programs notice an outage of a minute only by the wait. 24 pauses of 5 s on average.
pub const FILE_RETRIES: RetryPolicy = RetryPolicy {
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

/// Archives among the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveView {
    /// An archive is a file.
    Files,
    /// An archive is a file, and a folder beside it.
    Folders,
    /// As `Folders`; where there is an object of this key, it is an archive and its members are the root.
    Root(String),
}

/// Specification of files: their place, freshness and cache.
#[derive(Debug, Clone)]
pub struct BucketFilesSpec {
    /// Endpoint of the bucket, and the credentials for it.
    pub endpoint: EndpointSpec,
    /// Name of the endpoint in inodes and caches: its URL, or one for AWS.
    pub endpoint_name: String,
    /// Bucket and prefix to show, and how long names stay valid.
    pub tree: TreeOptions,
    /// Required freshness of objects when they are opened.
    pub freshness: Freshness,
    /// Archives among the files.
    pub archives: ArchiveView,
    /// A file that fixes names, sizes and versions: nothing is listed.
    pub manifest: Option<PathBuf>,
    /// A cache that keeps blocks and names beyond this process.
    pub cache: Option<Arc<CacheTier>>,
    /// Keep what is read in the cache: other objects never push it out.
    pub pin: bool,
    /// Open the place also while its endpoint does not answer: it was opened before, and its name is right.
    pub allows_unreachable: bool,
    /// Receives a line for the log, which comes once.
    pub note: fn(&str),
}

/// Reason why a place cannot be opened: one sentence with the cause, and one with the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketFilesError(pub String);

impl fmt::Display for BucketFilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BucketFilesError {}

impl From<RequestError> for BucketFilesError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Failed(error) => Self(sentence(&error)),
            RequestError::Cancelled => Self("the request was cancelled".to_owned()),
        }
    }
}

/// Files of a place, with the cache and the table of names behind them.
#[derive(Debug)]
pub struct BucketFiles {
    files: Arc<FileSystem>,
    names: Option<Arc<NameTable>>,
    cache: Option<Arc<CacheTier>>,
    /// The prefix that is pinned in the cache.
    pinned: Option<Prefix>,
    is_reachable: bool,
    note: fn(&str),
}

impl BucketFiles {
    /// Open a place. Runs in the runtime that serves the files.
    ///
    /// # Errors
    /// When the bucket cannot be listed, the key is that of an object, or the manifest or archive is unsound. With
    /// [`BucketFilesSpec::allows_unreachable`] an endpoint that does not answer is no error.
    pub async fn open(spec: BucketFilesSpec, clients: &ClientPool, pool: Arc<Pool>) -> Result<Self, BucketFilesError> {
        let BucketFilesSpec { endpoint, endpoint_name, tree, freshness, archives, manifest, cache, pin, .. } = spec;
        let note = spec.note;
        let is_frozen = freshness == Freshness::Frozen;
        // A directory that is forgotten and listed again may have other versions.
        let max_entries = if is_frozen { tree.max_entries.max(FROZEN_NAMES) } else { tree.max_entries };
        let tree = TreeOptions { max_entries, is_frozen, ..tree };
        let manifest = manifest.as_deref().map(|path| Manifest::read(path, &tree.prefix));
        let manifest = manifest.transpose().map_err(|error| BucketFilesError(error.to_string()))?;
        let mut is_reachable = true;
        if manifest.is_none() {
            match list_first(clients, &endpoint, &tree).await {
                Ok(true) => {}
                Ok(false) if matches!(archives, ArchiveView::Root(_)) => {}
                Ok(false) => check_no_object(clients, &endpoint, &tree).await?,
                Err(RequestError::Failed(error)) if spec.allows_unreachable && is_outage(&error) => {
                    is_reachable = false;
                    note(&format!("{error}. The share is served with what this machine has of it."));
                }
                Err(error) => return Err(BucketFilesError::from(error)),
            }
        }
        let demand = clients.interactive_client(&endpoint, FILE_RETRIES).await;
        let ahead = clients.client(&endpoint, FILE_RETRIES).await;
        let mut source: Arc<dyn Source> = Arc::new(ClientSource::new(demand, ahead, endpoint_name.clone()));
        let has_manifest = manifest.is_some();
        if let Some(manifest) = manifest {
            source = Arc::new(ManifestSource::new(manifest, source));
        }
        let below = cache.clone().map(|tier| tier as Arc<dyn BlockTier>);
        let blocks = cache.as_ref().map(|tier| Arc::clone(tier.cache()));
        let reader = Reader::with_lifetime(Arc::clone(&source), pool, below, tree.lifetime);
        let folders =
            || TarFolders::new(Arc::clone(&reader), Arc::clone(&source), blocks.clone(), TarOptions::default());
        let archives = match archives {
            ArchiveView::Files => None,
            ArchiveView::Folders => Some(Archives::new(folders())),
            ArchiveView::Root(key) => Some(rooted(folders(), &source, &tree.bucket, &key).await?),
        };
        let (bucket, prefix) = (tree.bucket.clone(), tree.prefix.clone());
        let place = Prefix { endpoint: endpoint_name, bucket, prefix };
        let tree = Tree::new(source, tree);
        let names = blocks.as_ref().filter(|_| !has_manifest).map(|cache| {
            let (path, size) = (cache.table_of_names(&place), cache.limits().max_size);
            Arc::new(NameTable::open(Arc::clone(&tree), path, size, note))
        });
        let files = FileSystem::with_archives(tree, reader, freshness, archives);
        Ok(Self { files, names, cache, pinned: pin.then_some(place), is_reachable, note })
    }

    /// False when the endpoint did not answer as the place was opened.
    pub fn is_reachable(&self) -> bool {
        self.is_reachable
    }

    /// The files.
    pub fn files(&self) -> &Arc<FileSystem> {
        &self.files
    }

    /// Pin the place if that is wanted, and look after cache and names from now on, for as long as the runtime lives.
    pub fn maintain(&self, runtime: &Handle) {
        let Some(cache) = self.cache.as_ref().map(|tier| Arc::clone(tier.cache())) else { return };
        if let Some(place) = self.pinned.clone()
            && let Err(error) = cache.pin(place)
        {
            let path = cache.path().display();
            (self.note)(&format!("cannot pin in the cache {path}: {error}; objects go as others do"));
        }
        maintain(runtime, cache, self.names.clone(), self.note);
    }

    /// Write the table of names, if something was listed since it was last written.
    pub fn save_names(&self) {
        if let Some(names) = &self.names {
            names.save();
        }
    }
}

/// Checks that the bucket exists and may be listed; returns true when there is an object below the prefix.
///
/// # Errors
/// When it cannot be listed.
pub async fn check_bucket(
    clients: &ClientPool,
    endpoint: &EndpointSpec,
    tree: &TreeOptions,
) -> Result<bool, BucketFilesError> {
    Ok(list_first(clients, endpoint, tree).await?)
}

/// Returns true when there is an object below the prefix.
async fn list_first(clients: &ClientPool, endpoint: &EndpointSpec, tree: &TreeOptions) -> Result<bool, RequestError> {
    let asking = clients.client(endpoint, RetryPolicy::impatient()).await;
    let (bucket, prefix) = (tree.bucket.clone(), tree.prefix.clone());
    let request = ListRequest { bucket, prefix, max_keys: Some(1), ..ListRequest::default() };
    Ok(!asking.list_page(&request).await?.objects.is_empty())
}

/// Refuses the key of an object where a prefix is needed: the folder would be empty. An empty prefix may be mounted.
async fn check_no_object(
    clients: &ClientPool,
    endpoint: &EndpointSpec,
    tree: &TreeOptions,
) -> Result<(), BucketFilesError> {
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
    Err(BucketFilesError(format!(
        "s3://{bucket}/{key} is an object, and a folder shows what is below a prefix: mount s3://{bucket}/{parent}"
    )))
}

/// Archives as folders; the one of this key, if it is there, as the root.
async fn rooted(
    folders: Arc<TarFolders>,
    source: &Arc<dyn Source>,
    bucket: &str,
    key: &str,
) -> Result<Archives, BucketFilesError> {
    let meta = match source.head(ObjectRef::new(bucket, key)).await {
        Ok(meta) => meta,
        Err(error) if error.class == ErrorClass::NotFound => return Ok(Archives::new(folders)),
        Err(error) => return Err(BucketFilesError(sentence(&error))),
    };
    let version = ObjectVersion {
        endpoint: source.endpoint().into(),
        bucket: bucket.into(),
        key: key.into(),
        pin: VersionPin::Etag(meta.etag.into()),
        size: meta.size,
    };
    let rooted = Archives::rooted(folders, &version, upload_time(meta.last_modified)).await;
    rooted.map_err(|error| match error {
        VfsError::BadArchive(text) => {
            let parent = key.rfind('/').map_or("", |slash| &key[..=slash]);
            BucketFilesError(format!("{text}. To read it as a file, mount s3://{bucket}/{parent}"))
        }
        other => BucketFilesError(other.to_string()),
    })
}

/// True for a failure that ends by itself: the same request may succeed later.
fn is_outage(error: &StoreError) -> bool {
    matches!(error.class, ErrorClass::Retry | ErrorClass::Throttle)
}

fn sentence(error: &StoreError) -> String {
    format!("{error}. {}", error.advice())
}
