//! Members that lie in several parts of the archive, with their digests so far.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use seqferry_archive::write::{ArchivePiece, PartSource};
use seqferry_store::{Checksum, ChecksumAlgorithm};
use tokio::sync::watch;

use super::plan::{Members, Plan};
use crate::stated_digest::StatedDigest;
use crate::verification::SegmentedDigest;

/// CRCs that can be joined, besides the CRC-32C that every range has.
pub(super) const OTHER_CRCS: [ChecksumAlgorithm; 2] = [ChecksumAlgorithm::Crc64Nvme, ChecksumAlgorithm::Crc32];

/// Members of which this run reads all bytes for several parts, by ordinal.
#[derive(Debug, Default)]
pub(super) struct SplitMembers(HashMap<usize, SplitMember>);

/// One of them.
#[derive(Debug)]
pub(super) struct SplitMember {
    /// Offset of the range at its turn.
    pub(super) turn: watch::Sender<u64>,
    digests: Mutex<MemberDigests>,
}

/// Digests of a member whose first range has come.
#[derive(Debug, Default)]
pub(super) struct MemberDigests {
    /// A CRC that can be joined, as the source states it.
    pub(super) crc: Option<Checksum>,
    /// Another digest that the source states.
    pub(super) stated: Option<StatedDigest>,
    /// The same digest, of the ranges so far.
    pub(super) read: Option<SegmentedDigest>,
}

impl SplitMembers {
    /// Returns those of a plan, of which the parts in `done` are sent already.
    pub(super) fn of<P>(plan: &Plan, members: &Members, done: &BTreeMap<u32, P>) -> Self {
        let missing = (1..=plan.count()).filter(|number| !done.contains_key(number));
        let assembled = missing.filter_map(|number| plan.part(number));
        let mut found: HashMap<usize, (usize, u64)> = HashMap::new();
        for part in assembled.filter(|part| part.source == PartSource::Assembled) {
            for piece in plan.layout().pieces(part.range.clone()) {
                let ArchivePiece::Contents { member, range } = piece else { continue };
                let (ranges, bytes) = found.entry(member).or_default();
                (*ranges, *bytes) = (*ranges + 1, *bytes + range.end - range.start);
            }
        }
        found.retain(|member, (ranges, bytes)| *ranges > 1 && *bytes == members.items()[*member].size);
        let member = || SplitMember { turn: watch::Sender::new(0), digests: Mutex::default() };
        Self(found.into_keys().map(|ordinal| (ordinal, member())).collect())
    }

    /// The member of this ordinal, if it is one of them.
    pub(super) fn get(&self, ordinal: usize) -> Option<&SplitMember> {
        self.0.get(&ordinal)
    }
}

impl SplitMember {
    pub(super) fn digests(&self) -> MutexGuard<'_, MemberDigests> {
        self.digests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
