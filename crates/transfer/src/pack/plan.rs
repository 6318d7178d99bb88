//! The plan of an archive: its members in order, the place of every byte, the parts of the upload.
//!
//! A plan depends on the items and the limits alone, so that a later run makes the same one. Its fingerprint is
//! recorded with the upload.

use std::fmt;
use std::ops::Range;

use seqferry_archive::write::{
    ArchiveEntry, ArchivePiece, Layout, LayoutError, PartSource, UploadLimits, UploadPart, plan_upload, split,
};
use seqferry_store::checksum::hex;
use seqferry_store::{ChecksumAlgorithm, DigestAlgorithm, Digester, ObjectRef, PinnedObject};

use crate::limits::CopyLimits;
use crate::object::{JobItem, Policy};
use crate::plan::plan_parts;

/// Largest member: 5 TiB, the largest object of most services. Few services could unpack a larger one.
pub const MAX_MEMBER_SIZE: u64 = 5 << 40;
/// Most members of one archive. The plan holds some 400 bytes for each; more members belong into shards.
pub const MAX_MEMBERS: usize = 1_000_000;
/// Size of a copied part as a multiple of the part size of other copies: 512 MiB.
const COPIED_PARTS: u64 = 4;

/// The archive cannot be made.
#[derive(Debug)]
pub(super) enum PlanRefusal {
    /// One member cannot be packed: its ordinal, and the reason.
    Member(usize, String),
    /// The archive cannot be made: a stable code, and the reason.
    Archive(&'static str, String),
}

/// Rules for the parts of an archive.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartRules {
    /// True when the service can copy from the source.
    pub(super) copies: bool,
    /// True when all parts but the last must have one size, as for a disk.
    pub(super) uniform: bool,
    /// Bytes that may be buffered.
    pub(super) memory: u64,
}

/// The members, in the order of the archive. All have a key, a size and a pin.
pub(super) struct Members {
    items: Vec<JobItem>,
    strip: String,
}

impl Members {
    /// Sorts the members by the bytes of their names, so that the order of the listing does not matter.
    pub(super) fn new(mut items: Vec<JobItem>, strip: &str) -> Self {
        items.sort_by(|a, b| a.source_key.as_bytes().cmp(b.source_key.as_bytes()));
        Self { items, strip: strip.to_owned() }
    }

    pub(super) fn items(&self) -> &[JobItem] {
        &self.items
    }

    pub(super) fn items_mut(&mut self) -> &mut [JobItem] {
        &mut self.items
    }

    fn name(&self, item: &JobItem) -> String {
        item.source_key.strip_prefix(self.strip.as_str()).unwrap_or(&item.source_key).to_owned()
    }

    fn entry(&self, item: &JobItem) -> ArchiveEntry {
        entry(&self.name(item), item.size)
    }

    /// Digest of the names, sizes and pins of all members.
    pub(super) fn digest(&self) -> String {
        let mut digester = Digester::new(DigestAlgorithm::Checksum(ChecksumAlgorithm::Sha256));
        digester.update(b"seqferry pack 1");
        for item in &self.items {
            let name = self.name(item);
            for text in [name.as_bytes(), item.etag.as_bytes(), item.version_id.as_deref().unwrap_or("").as_bytes()] {
                digester.update(&(text.len() as u64).to_le_bytes());
                digester.update(text);
            }
            digester.update(&item.size.to_le_bytes());
        }
        hex(&digester.finish())
    }

    /// A member, pinned to its listed state.
    pub(super) fn pin(&self, bucket: &str, member: usize) -> PinnedObject {
        let item = &self.items[member];
        let object = ObjectRef::new(bucket, &item.source_key).at_version(item.version_id.as_deref());
        PinnedObject::listed(object, &item.etag, item.size)
    }
}

/// See the module.
pub(super) struct Plan {
    layout: Layout<'static>,
    limits: UploadLimits,
    parts: Vec<UploadPart>,
    /// Bytes of each part but the last, where they are uniform.
    pub(super) part_size: u64,
    /// Digest of the members: see [`Members::digest`].
    pub(super) digest: String,
    /// Fingerprint of the members and the parts, a positive number of 63 bits.
    pub(super) fingerprint: u64,
}

impl Plan {
    /// Plan the archive of these members.
    pub(super) fn new(members: &Members, policy: &Policy, rules: PartRules) -> Result<Self, PlanRefusal> {
        let limits = &policy.limits;
        check_sizes(members)?;
        let entries: Vec<ArchiveEntry> = members.items.iter().map(|item| members.entry(item)).collect();
        let layout = Layout::plan(entries).map_err(|error| to_refusal(&error))?;
        if layout.total() > limits.maximum_object {
            let cause = format!(
                "it would have {} bytes, and an object has at most {}; split it into shards",
                layout.total(),
                limits.maximum_object
            );
            return Err(PlanRefusal::Archive("ArchiveTooLarge", cause));
        }
        let requested = policy.part_options.part_size;
        let upload_limits = upload_limits(limits, requested, rules.memory);
        let (parts, part_size) = if rules.uniform {
            uniform(&layout, requested, limits)?
        } else {
            (plan_upload(&layout, |_| rules.copies, &upload_limits), 0)
        };
        let parts = parts.map_err(|error| to_refusal(&error))?;
        let digest = members.digest();
        let fingerprint = fingerprint(&digest, &parts);
        Ok(Self { layout, limits: upload_limits, parts, part_size, digest, fingerprint })
    }

    /// Cuts the parts again, so that no member but these is copied inside the storage.
    pub(super) fn copy_only(&mut self, copyable: impl Fn(usize) -> bool) -> Result<(), PlanRefusal> {
        let parts = plan_upload(&self.layout, copyable, &self.limits);
        self.parts = parts.map_err(|error| to_refusal(&error))?;
        self.fingerprint = fingerprint(&self.digest, &self.parts);
        Ok(())
    }

    /// Fingerprint of the same archive if no member is copied inside the storage. None: it needs too many parts.
    pub(super) fn streamed_fingerprint(&self) -> Option<u64> {
        let parts = plan_upload(&self.layout, |_| false, &self.limits).ok()?;
        Some(fingerprint(&self.digest, &parts))
    }

    /// Bytes of the archive.
    pub(super) fn total(&self) -> u64 {
        self.layout.total()
    }

    /// The layout.
    pub(super) fn layout(&self) -> &Layout<'static> {
        &self.layout
    }

    /// Number of parts.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.parts.len()).unwrap_or(u32::MAX)
    }

    /// Part `number`, from 1 on.
    pub(super) fn part(&self, number: u32) -> Option<&UploadPart> {
        self.parts.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    /// True when any part is copied inside the storage.
    pub(super) fn copies(&self) -> bool {
        self.parts.iter().any(|part| part.source != PartSource::Assembled)
    }

    /// Members of which parts are copied inside the storage, by ordinal.
    pub(super) fn copied_members(&self) -> Vec<usize> {
        let copied = self.parts.iter().filter_map(|part| match part.source {
            PartSource::Copied { member, .. } => Some(member),
            PartSource::Assembled => None,
        });
        let mut members: Vec<usize> = copied.collect();
        members.dedup();
        members
    }

    /// Bytes of members in a range of the archive.
    pub(super) fn contents(&self, range: &Range<u64>) -> u64 {
        let of_members = |piece: ArchivePiece| {
            if let ArchivePiece::Contents { range, .. } = piece { range.end - range.start } else { 0 }
        };
        self.layout.pieces(range.clone()).map(of_members).sum()
    }
}

fn check_sizes(members: &Members) -> Result<(), PlanRefusal> {
    if members.items.len() > MAX_MEMBERS {
        let cause = format!(
            "it would have {} members, and at most {MAX_MEMBERS} are packed into one; split it into shards",
            members.items.len()
        );
        return Err(PlanRefusal::Archive("TooManyMembers", cause));
    }
    match members.items.iter().position(|item| item.size > MAX_MEMBER_SIZE) {
        Some(member) => {
            let cause = format!(
                "it has {} bytes, and a member has at most 5 TiB ({MAX_MEMBER_SIZE})",
                members.items[member].size
            );
            Err(PlanRefusal::Member(member, cause))
        }
        None => Ok(()),
    }
}

fn to_refusal(error: &LayoutError) -> PlanRefusal {
    match error {
        LayoutError::ArchiveEntry { member, refusal, .. } => PlanRefusal::Member(*member, refusal.to_string()),
        LayoutError::Record { member, .. } | LayoutError::LinkAcrossShards { member } => {
            PlanRefusal::Member(*member, error.to_string())
        }
        LayoutError::TooManyParts { .. } => PlanRefusal::Archive("TooManyParts", error.to_string()),
        _ => PlanRefusal::Archive("ArchiveTooLarge", error.to_string()),
    }
}

fn upload_limits(limits: &CopyLimits, requested: Option<u64>, memory: u64) -> UploadLimits {
    let defaults = UploadLimits::default();
    UploadLimits {
        minimum_part: limits.minimum_part,
        maximum_part: limits.maximum_part,
        maximum_parts: limits.maximum_parts,
        assembled_part: requested.unwrap_or(limits.stream_part_grown).min(memory),
        maximum_assembled: defaults.maximum_assembled.min(memory),
        copied_part: requested.unwrap_or(COPIED_PARTS.saturating_mul(limits.part_size)),
        copy_from: limits.stream_threshold,
    }
}

type Parts = Result<Vec<UploadPart>, LayoutError>;

fn uniform(layout: &Layout<'_>, requested: Option<u64>, limits: &CopyLimits) -> Result<(Parts, u64), PlanRefusal> {
    let plan = plan_parts(layout.total(), Some(requested.unwrap_or(limits.stream_part_grown)), limits)
        .map_err(|error| PlanRefusal::Archive("ArchiveTooLarge", error.to_string()))?;
    let parts = (1..=plan.count()).filter_map(|number| plan.range(number));
    let parts =
        parts.map(|range| UploadPart { range: range.first..range.last + 1, source: PartSource::Assembled }).collect();
    Ok((Ok(parts), plan.part_size))
}

fn fingerprint(digest: &str, parts: &[UploadPart]) -> u64 {
    let mut digester = Digester::new(DigestAlgorithm::Checksum(ChecksumAlgorithm::Sha256));
    digester.update(digest.as_bytes());
    for part in parts {
        digester.update(&part.range.end.to_le_bytes());
        digester.update(&[u8::from(part.source == PartSource::Assembled)]);
    }
    let bytes = digester.finish();
    let number = bytes.iter().take(8).fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    // 0 means "not recorded" where part sizes are kept, and the highest bit is the sign in a database.
    (number >> 1).max(1)
}

/// Cuts members into archives of at most `shard_size` bytes each; returns the ordinals at which shards end. A larger
/// member gets a shard of its own, and no shard has more than [`MAX_MEMBERS`].
///
/// # Errors
/// When the members have more bytes than any tar can hold.
pub fn shards(names: &[String], sizes: &[u64], shard_size: u64) -> Result<Vec<usize>, String> {
    let entries: Vec<ArchiveEntry> = names.iter().zip(sizes).map(|(name, size)| entry(name, *size)).collect();
    let mut ends = Vec::new();
    for shard in split(&entries, shard_size).map_err(|error| error.to_string())? {
        ends.extend(shard.clone().skip(MAX_MEMBERS).step_by(MAX_MEMBERS));
        ends.push(shard.end);
    }
    Ok(ends)
}

fn entry(name: &str, size: u64) -> ArchiveEntry {
    match name.strip_suffix('/') {
        Some(folder) if size == 0 => ArchiveEntry::directory(folder),
        _ => ArchiveEntry::file(name, size),
    }
}

impl fmt::Display for PlanRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(_, cause) | Self::Archive(_, cause) => f.write_str(cause),
        }
    }
}
