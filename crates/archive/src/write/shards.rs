//! Several archives of a set size instead of one: each shard is a complete tar.

use std::collections::HashSet;
use std::ops::Range;

use crate::block::{BLOCK, pad};
use crate::write::{ArchiveEntry, EntryKind, LayoutError};

/// Ranges of entries that make archives of at most `size` bytes. An entry that is larger alone gets a shard of its own.
///
/// # Errors
/// When a hard link falls into another shard than its file, which no reader could resolve.
pub fn split(entries: &[ArchiveEntry], size: u64) -> Result<Vec<Range<usize>>, LayoutError> {
    let mut shards = Vec::new();
    let (mut start, mut used) = (0, 2 * BLOCK);
    let mut names: HashSet<&[u8]> = HashSet::new();
    for (at, entry) in entries.iter().enumerate() {
        let len = pad(entry.size()).and_then(|len| len.checked_add(entry.header_len())).ok_or(LayoutError::TooLarge)?;
        if at > start && used.saturating_add(len) > size {
            shards.push(start..at);
            (start, used) = (at, 2 * BLOCK);
            names.clear();
        }
        used = used.saturating_add(len);
        match &entry.kind {
            EntryKind::HardLink(target) if !names.contains(target.as_slice()) => {
                return Err(LayoutError::LinkAcrossShards { member: at });
            }
            _ => names.insert(&entry.name),
        };
    }
    if start < entries.len() || entries.is_empty() {
        shards.push(start..entries.len());
    }
    Ok(shards)
}

/// Name of a shard: `x.tar` becomes `x-00003.tar`.
pub fn shard_name(name: &str, shard: usize) -> String {
    let stem = name.strip_suffix(".tar").unwrap_or(name);
    format!("{stem}-{shard:05}.tar")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::Layout;

    #[test]
    fn shards_hold_all_entries_in_order_within_the_size() {
        let sizes = [100u64, 5000, 1, 1, 1_000_000, 300, 300, 300];
        let entries: Vec<ArchiveEntry> =
            sizes.iter().enumerate().map(|(at, size)| ArchiveEntry::file(format!("{at}"), *size)).collect();

        let shards = split(&entries, 10_000).unwrap();

        assert_eq!(shards.iter().cloned().flatten().collect::<Vec<_>>(), (0..sizes.len()).collect::<Vec<_>>());
        for shard in &shards {
            let total = Layout::plan(&entries[shard.clone()]).unwrap().total();
            assert!(total <= 10_000 || shard.len() == 1, "{shard:?} has {total} bytes");
        }
        assert_eq!(shards.len(), 3);
        assert_eq!(shard_name("run42.tar", 7), "run42-00007.tar");
    }

    #[test]
    fn a_hard_link_stays_with_its_file() {
        let entries = [ArchiveEntry::file("a", 4000), ArchiveEntry::file("b", 4000), ArchiveEntry::hard_link("c", "a")];

        assert_eq!(split(&entries, 1 << 20).unwrap(), std::slice::from_ref(&(0..3)));
        assert_eq!(split(&entries, 6000), Err(LayoutError::LinkAcrossShards { member: 2 }));
    }
}
