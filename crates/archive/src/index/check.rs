//! The check that an index belongs to a tar: as a whole by identity, and by member by the headers at its offsets.

use super::format::{IndexMember, TarIdentity};
use super::read::{Index, IndexError, IndexFault};
use crate::member::Member;
use crate::scan::{Checkpoint, ReadOptions, ScanStep, Scanner};

/// Result of comparing an index with a live object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexMatch {
    /// The object that the index was made of: its size, and its version id or `ETag`, are the same.
    Object,
    /// A copy of the tar: its size and a checksum of all bytes are the same.
    Contents,
    /// An object of the same size with nothing else to compare. Parse the headers of [`spot_checks`] before use, then
    /// write the head again.
    Unproven,
    /// Another tar: its size or a checksum differs.
    Different,
}

impl IndexMatch {
    /// True when the index may be used without spot checks.
    pub fn is_certain(self) -> bool {
        matches!(self, Self::Object | Self::Contents)
    }
}

impl Index {
    /// Compare the identity in the head with that of the live object.
    pub fn matches(&self, live: &TarIdentity) -> IndexMatch {
        let head = &self.head.tar;
        if head.size != live.size {
            return IndexMatch::Different;
        }
        let same = |a: &Option<String>, b: &Option<String>| match (normal(a.as_deref()), normal(b.as_deref())) {
            (Some(a), Some(b)) => Some(a == b),
            _ => None,
        };
        if same(&head.version_id, &live.version_id) == Some(true) || same(&head.etag, &live.etag) == Some(true) {
            return IndexMatch::Object;
        }
        let digests = [
            same(&head.sha256, &live.sha256),
            same(&head.crc64nvme, &live.crc64nvme),
            same(&head.crc32c, &live.crc32c),
        ];
        // One that differs outweighs one that agrees.
        if digests.contains(&Some(false)) {
            IndexMatch::Different
        } else if digests.contains(&Some(true)) {
            IndexMatch::Contents
        } else {
            IndexMatch::Unproven
        }
    }
}

/// Text without quotes and spaces; None where nothing is left, and for `null`, the version id in buckets without
/// versions.
fn normal(text: Option<&str>) -> Option<&str> {
    text.map(|text| text.trim().trim_matches('"')).filter(|text| !text.is_empty() && *text != "null")
}

/// Ordinals of the members whose headers verify an index: the first, the last, and up to 16 chosen by `seed`.
pub fn spot_checks(members: usize, seed: u64) -> Vec<usize> {
    let mut chosen: Vec<usize> = [0, members.saturating_sub(1)].into_iter().filter(|at| *at < members).collect();
    let mut state = seed;
    for _ in 0..16.min(members) {
        // SplitMix64: enough to spread over the archive, and the same everywhere.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        chosen.push(usize::try_from((mixed ^ (mixed >> 31)) % members as u64).unwrap_or(0));
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// Check a member of an index against the tar. `headers` are the bytes from `header_offset` to `data_offset`.
///
/// # Errors
/// [`IndexFault::Foreign`] when the headers at this place are not those of the member.
pub fn verify_member(entry: &IndexMember, headers: &[u8], options: &ReadOptions) -> Result<(), IndexError> {
    let listed = &entry.member;
    let foreign = || IndexError { line: None, fault: IndexFault::Foreign(listed.display_name()) };
    let options = ReadOptions { missing_end: true, ..options.clone() };
    let checkpoint = Checkpoint { offset: listed.header_offset, globals: Vec::new() };
    let mut scanner = Scanner::resume(None, options, checkpoint);
    loop {
        match scanner.step().map_err(|_| foreign())? {
            ScanStep::Need { offset, .. } => {
                let at = offset.checked_sub(listed.header_offset).and_then(|at| usize::try_from(at).ok());
                let bytes = at.and_then(|at| headers.get(at..)).unwrap_or_default();
                if scanner.supply(offset, bytes) == 0 {
                    return Err(foreign());
                }
            }
            ScanStep::Member(found) => return if same_member(listed, &found) { Ok(()) } else { Err(foreign()) },
            ScanStep::End(_) => return Err(foreign()),
        }
    }
}

/// True when two readings of a member agree in everything that decides its bytes and its name. Owners, times and modes
/// may come from global headers.
pub fn same_member(listed: &Member, found: &Member) -> bool {
    let place =
        |member: &Member| (member.header_offset, member.data_offset, member.stored_size, member.size, member.kind);
    place(listed) == place(found)
        && listed.name == found.name
        && listed.link == found.link
        && listed.sparse == found.sparse
        && listed.refusal == found.refusal
}
