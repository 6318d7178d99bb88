//! Unpacking archives: members of a tar as objects that any job copies.
//!
//! | module | holds |
//! |---|---|
//! | `member_location` | [`MemberLocation`]: where a member lies in its archive, as one text that a control plane records |
//! | `scan` | [`ArchiveScan`]: the members of an archive by its index or its headers, each accepted or refused |
//! | `bytes` | reading the archive: windows that neighbours share, long ranges, plain bytes of a compressed tar |
//! | `retained` | what a scan has read, kept for the members that come next |
//! | `plain` | decompressing gzip, Zstandard and deflate as a stream |
//! | `zip` | members of a zip |
//! | `check` | [`ArchiveCheck`]: headers, index and contents compared |
//! | `members` | [`MemberStore`]: an object store whose objects are the members |
//! | `target` | [`RangeTarget`]: the target's store, which copies ranges of the archive for parts of a member |
//!
//! Invariants: every read is pinned to the version of the archive that was scanned; the headers at the place of a
//! member are parsed again and compared before its first byte is handed out; a name becomes a key only after
//! [`seqferry_archive::MemberTree`] has admitted it.

mod bytes;
mod check;
mod member_location;
mod members;
mod plain;
mod retained;
mod scan;
mod target;
mod zip;

pub use check::{ArchiveCheck, CheckReport};
pub use member_location::{Format, LocationKind, MemberLocation};
pub use members::MemberStore;
pub use retained::WindowPool;
pub use scan::{ArchiveScan, FoundMember, IndexUse, ScanOptions, index_archive};
pub use target::RangeTarget;

use std::sync::Arc;

use seqferry_client::Endpoint;

use crate::object::{JobItem, Policy, VerificationRule};

/// The archive that the items of a job are members of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveRef {
    /// Bucket, or the absolute path of a folder.
    pub bucket: String,
    /// Key.
    pub key: String,
}

/// Largest member that passes through this process where the service could copy it: a part copy takes three requests
/// that write, a streamed member one, and neighbours share one read.
const STREAMED: u64 = 8 << 20;

/// Largest member of a compressed tar that is unpacked concurrently with others, `CONCURRENT_SHORT_MEMBERS` at a time.
/// The last bytes of the decoder are kept for members that come a little late.
const SHORT: u64 = 1 << 20;
const CONCURRENT_SHORT_MEMBERS: usize = 8;

/// Members from which on one sync of the file system for many is worth what else it may have to write.
const SYNCED_TOGETHER: usize = 64;

/// Source and target of a job over members, and its items and policy adapted to them.
pub(crate) fn endpoints(
    archive: &ArchiveRef,
    pool: &Arc<WindowPool>,
    (source, target): (Endpoint, Endpoint),
    policy: &mut Policy,
    items: &mut [JobItem],
) -> (Endpoint, Endpoint) {
    policy.part_options.copy_threshold = Some(policy.part_options.copy_threshold.unwrap_or(STREAMED));
    let threshold = policy.part_options.copy_threshold.unwrap_or(STREAMED);
    items.sort_by_key(|item| location_of(item).map_or(0, |location| location.header));
    let format = items.iter().find_map(location_of).map_or(Format::Plain, |location| location.format);
    for item in items.iter_mut() {
        let location = location_of(item);
        let whole = location.is_some_and(|location| location.kind == LocationKind::File);
        let sum = location.is_some_and(|location| location.crc32c.is_some());
        // A copy that cannot be verified is allowed for `auto` only.
        item.streamed = !whole
            || format != Format::Plain
            || item.size <= threshold
            || (!sum && policy.verify != VerificationRule::Auto);
    }
    policy.defer_sync = items.len() >= SYNCED_TOGETHER;
    if format.is_stream() {
        // One decoder gives the bytes in order: a long member is alone with it, short ones wait for each other.
        let short = items.iter().all(|item| item.size <= SHORT);
        let in_memory = pool.retained(&source, archive, format).is_some_and(|retained| retained.is_complete());
        policy.max_objects = (!in_memory).then_some(if short { CONCURRENT_SHORT_MEMBERS } else { 1 });
    }
    let members = MemberStore::new(source, archive.clone(), Arc::clone(pool), items);
    let members = Endpoint::new(Arc::new(members));
    if format != Format::Plain {
        // Long members are read once from their start, and not in ranges.
        members.quirks.learn_ignored_ranges();
    }
    let target = Endpoint { store: Arc::new(RangeTarget::new(target.store, archive.clone())), quirks: target.quirks };
    (members, target)
}

fn location_of(item: &JobItem) -> Option<MemberLocation> {
    item.version_id.as_deref().and_then(MemberLocation::parse)
}
