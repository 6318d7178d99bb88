//! The parts of one multipart upload, planned so that big members are copied by range inside the storage.
//!
//! A part is either assembled (headers, padding and small members pass through the process) or copied from the object
//! that is the source of one member. Every part but the last needs 5 MiB, so an assembled part that would be shorter
//! takes the first bytes of the big member behind it. All parts are known in advance and can be made in any order.

use std::ops::Range;

use crate::write::{EntryKind, Layout, LayoutError};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Limits of the service, and the sizes that a plan begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadLimits {
    /// Fewest bytes of every part but the last. 5 MiB on S3.
    pub minimum_part: u64,
    /// Most bytes of a part. 5 GiB on S3.
    pub maximum_part: u64,
    /// Most parts. 10,000 on S3.
    pub maximum_parts: u64,
    /// Wanted bytes of an assembled part, at least twice the minimum. A buffer of this size is in memory per request.
    pub assembled_part: u64,
    /// Most bytes of an assembled part when the archive needs larger ones.
    pub maximum_assembled: u64,
    /// Wanted bytes of a copied part: pieces of 512 MiB run in parallel.
    pub copied_part: u64,
    /// Members from this size on are copied. Below it, a copy costs more requests than the bytes are worth.
    pub copy_from: u64,
}

impl Default for UploadLimits {
    fn default() -> Self {
        Self {
            minimum_part: 5 * MIB,
            maximum_part: 5 * GIB,
            maximum_parts: 10_000,
            assembled_part: 16 * MIB,
            maximum_assembled: GIB,
            copied_part: 512 * MIB,
            copy_from: 16 * MIB,
        }
    }
}

/// The origin of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartSource {
    /// Assembled from the layout's [pieces](Layout::pieces).
    Assembled,
    /// Copied from the source object of a member.
    Copied {
        /// Ordinal of the member.
        member: usize,
        /// Bytes of the member.
        range: Range<u64>,
    },
}

/// One part of the upload. Part numbers are the positions in the plan, from 1 on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadPart {
    /// Bytes of the archive.
    pub range: Range<u64>,
    /// Origin.
    pub source: PartSource,
}

/// Cut a layout into parts. `copyable` says which members have a source object that the service can copy from.
///
/// Where the plan has too many parts, parts grow first, then fewer members are copied.
///
/// # Examples
///
/// ```
/// use seqferry_archive::write::{ArchiveEntry, Layout, PartSource, UploadLimits, plan_upload};
///
/// let entries = [ArchiveEntry::file("small", 1000), ArchiveEntry::file("big", 100 << 20)];
/// let parts = plan_upload(&Layout::plan(&entries)?, |_| true, &UploadLimits::default())?;
/// // 5 MiB pass through the process, the rest is copied, 1,024 bytes close the archive.
/// assert_eq!(parts.len(), 3);
/// assert_eq!(parts[1].source, PartSource::Copied { member: 1, range: (5 << 20) - 2048..100 << 20 });
/// # Ok::<(), seqferry_archive::write::LayoutError>(())
/// ```
///
/// # Errors
/// When the plan has too many parts even at their largest sizes.
pub fn plan_upload(
    layout: &Layout<'_>,
    copyable: impl Fn(usize) -> bool,
    limits: &UploadLimits,
) -> Result<Vec<UploadPart>, LayoutError> {
    let mut sizes = *limits;
    sizes.assembled_part = sizes.assembled_part.clamp(2 * limits.minimum_part, limits.maximum_part);
    sizes.maximum_assembled = sizes.maximum_assembled.clamp(sizes.assembled_part, limits.maximum_part);
    sizes.copied_part = sizes.copied_part.clamp(2 * limits.minimum_part, limits.maximum_part);
    loop {
        let parts = cut(layout, &copyable, &sizes);
        let count = parts.len() as u64;
        if count <= limits.maximum_parts {
            return Ok(parts);
        }
        let grown = UploadLimits {
            assembled_part: (2 * sizes.assembled_part).min(sizes.maximum_assembled),
            copied_part: (2 * sizes.copied_part).min(limits.maximum_part),
            ..sizes
        };
        if grown != sizes {
            sizes = grown;
        } else if sizes.copy_from <= layout.total() {
            sizes.copy_from = (2 * sizes.copy_from).max(1);
        } else {
            return Err(LayoutError::TooManyParts { parts: count, maximum: limits.maximum_parts });
        }
    }
}

fn cut(layout: &Layout<'_>, copyable: impl Fn(usize) -> bool, sizes: &UploadLimits) -> Vec<UploadPart> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (member, entry) in layout.entries().iter().enumerate() {
        let EntryKind::File(size) = entry.kind else { continue };
        let data = layout.placement(member).data;
        let first = data.max(start + sizes.minimum_part);
        let end = data + size;
        if size < sizes.copy_from || first + sizes.minimum_part > end || !copyable(member) {
            continue;
        }
        parts.extend(
            pieces(start..first, sizes.assembled_part).map(|range| UploadPart { range, source: PartSource::Assembled }),
        );
        parts.extend(pieces(first..end, sizes.copied_part).map(|range| UploadPart {
            source: PartSource::Copied { member, range: range.start - data..range.end - data },
            range,
        }));
        start = end;
    }
    parts.extend(
        pieces(start..layout.total(), sizes.assembled_part)
            .map(|range| UploadPart { range, source: PartSource::Assembled }),
    );
    parts
}

/// Even pieces of at most `size` bytes: of a range longer than `size` each has at least half of it.
fn pieces(range: Range<u64>, size: u64) -> impl Iterator<Item = Range<u64>> {
    let len = range.end - range.start;
    let count = len.div_ceil(size);
    let edge = move |at: u64| range.start + len / count.max(1) * at + (len % count.max(1)).min(at);
    (0..count).map(move |at| edge(at)..edge(at + 1))
}
