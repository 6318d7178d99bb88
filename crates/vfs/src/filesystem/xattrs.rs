//! Extended attributes, read-only: attributes of the object of a file, and the hidden keys at the root.

use seqferry_store::{ObjectMeta, ObjectRef};

use super::FileSystem;
use crate::error::{Result, VfsError};
use crate::tree::{FileKind, ROOT};
use crate::version::VersionPin;

/// Beginning of the names of all attributes of objects.
pub const XATTR_PREFIX: &str = "user.s3.";

/// Beginning of the names of attributes that describe a mount.
pub const MOUNT_XATTR_PREFIX: &str = "user.seqferry.";

/// Attribute of the root that counts and names the hidden keys of the directories listed so far.
pub const HIDDEN_XATTR: &str = "user.seqferry.hidden";

/// Attribute of the root that holds counters of the mount as JSON.
pub const STATS_XATTR: &str = "user.seqferry.stats";

/// Attribute of the folder of an archive that counts and names the members that do not appear.
pub const REFUSED_XATTR: &str = "user.seqferry.refused";

/// Hidden keys that the attribute names: its value must stay small.
const NAMED: usize = 100;

impl FileSystem {
    /// Names of the attributes that cost no request. The others (`version`, `storage-class`, `checksum`) are answered
    /// when they are requested by name.
    ///
    /// # Errors
    /// `Stale` for an unknown inode.
    pub fn list_xattrs(&self, inode: u64) -> Result<Vec<String>> {
        if inode == ROOT {
            let refused = self.member(inode).map(|_| REFUSED_XATTR.to_owned());
            return Ok([HIDDEN_XATTR, STATS_XATTR].map(str::to_owned).into_iter().chain(refused).collect());
        }
        match self.attributes(inode)?.kind {
            FileKind::Directory if matches!(self.member(inode), Some((_, 0))) => Ok(vec![REFUSED_XATTR.to_owned()]),
            // Members of an archive are no objects of their own.
            _ if self.member(inode).is_some() => Ok(Vec::new()),
            FileKind::Directory => Ok(Vec::new()),
            _ => Ok(vec![format!("{XATTR_PREFIX}etag"), format!("{XATTR_PREFIX}key")]),
        }
    }

    /// The value of an attribute; None where there is none. Facts that no answer has brought yet cost one HEAD.
    ///
    /// # Errors
    /// When the service does not answer.
    pub async fn xattr(&self, inode: u64, name: &str) -> Result<Option<String>> {
        if inode == ROOT && name == HIDDEN_XATTR {
            return Ok(Some(self.hidden_text()));
        }
        if inode == ROOT && name == STATS_XATTR {
            return Ok(Some(self.stats_text()));
        }
        if name == REFUSED_XATTR {
            return self.refused_text(inode).await;
        }
        let Some(fact) = name.strip_prefix(XATTR_PREFIX) else { return Ok(None) };
        if self.attributes(inode)?.kind == FileKind::Directory || self.member(inode).is_some() {
            return Ok(None);
        }
        let object = self.object(inode)?;
        let from_meta: fn(&ObjectMeta) -> Option<String> = match (fact, &object.version.pin) {
            ("key", _) => return Ok(Some(object.version.key.to_string())),
            ("etag", VersionPin::Etag(etag)) => return Ok(Some(etag.to_string())),
            ("etag", VersionPin::VersionId(_)) => |meta| Some(meta.etag.clone()),
            ("version", _) => |meta| meta.version_id.clone(),
            ("storage-class", _) => |meta| Some(meta.storage_class.as_deref().unwrap_or("STANDARD").to_owned()),
            ("checksum", _) => |meta| {
                let checksum = meta.checksum.as_ref()?;
                Some(format!("{}:{}", checksum.algorithm.name(), checksum.value))
            },
            _ => return Ok(None),
        };
        // A GET of a range does not bring the checksum.
        if let Some(meta) = object.meta().filter(|_| fact != "checksum") {
            return Ok(from_meta(meta));
        }
        let version = &object.version;
        let current = ObjectRef::new(&version.bucket, &version.key);
        match self.tree.source().head(current).await.map_err(VfsError::from) {
            Ok(meta) if object.is_same(&meta) => Ok(from_meta(&meta)),
            Ok(_) | Err(VfsError::NotFound) => Err(VfsError::Stale),
            Err(other) => Err(other),
        }
    }

    fn stats_text(&self) -> String {
        let stats = self.stats();
        let numbers = [
            ("requests", stats.requests),
            ("bytes_wanted", stats.bytes_wanted),
            ("bytes_fetched", stats.bytes_fetched),
            ("block_hits", stats.block_hits),
            ("block_misses", stats.block_misses),
            ("cache_blocks", stats.tier_blocks),
            ("memory", stats.pool.capacity),
            ("memory_used", stats.pool.used),
            ("cache", stats.tier.limit),
            ("cache_used", stats.tier.used),
            ("names", self.tree.entries() as u64),
            ("hidden", self.tree.hidden().0),
            ("open_files", self.open_handles() as u64),
        ];
        let fields = numbers.map(|(name, number)| format!("\"{name}\":{number}"));
        format!("{{{}}}", fields.join(","))
    }

    fn hidden_text(&self) -> String {
        let (count, keys) = self.tree.hidden();
        let named = keys.iter().take(NAMED).map(|hidden| format!("\n{}: {}", hidden.key.escape_debug(), hidden.reason));
        named.fold(count.to_string(), |text, line| text + &line)
    }
}
