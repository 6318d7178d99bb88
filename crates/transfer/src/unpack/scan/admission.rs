//! Admission of members: those that are unpacked, and why the others are not.

use std::collections::{HashMap, HashSet};

use seqferry_archive::index::IndexMember;
use seqferry_archive::tree::{NodeId, NodeKind, TreeNode};
use seqferry_archive::{Member, MemberKind, MemberPath, MemberRefusal, MemberTree, TreePolicy};
use seqferry_store::{ChecksumAlgorithm, DigestAlgorithm, Digester};

use super::ScanOptions;
use crate::unpack::member_location::{Format, LocationKind, MemberLocation, member_etag};

/// A member as a scan reports it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FoundMember {
    /// Name in the archive, with escapes where it is not printable text.
    pub name: String,
    /// Safe relative path; with a last slash for a directory. Empty for a refused member.
    pub path: String,
    /// `file`, `hard_link`, `symbolic_link`, `directory`, or another kind that is refused.
    pub kind: &'static str,
    /// Bytes that it has once it is unpacked.
    pub size: u64,
    /// Place in the archive ([`MemberLocation`]); of a refused member only the offset of its header, which tells it
    /// from others.
    pub location: String,
    /// `ETag` of the member: that of the archive and its place.
    pub etag: String,
    /// Modification time, seconds since 1970.
    pub modified: f64,
    /// The same in nanoseconds, exactly.
    pub modified_ns: i128,
    /// Permission bits.
    pub mode: u32,
    /// Target of a link; empty for others.
    pub link: String,
    /// CRC-32C of its contents, where an index states it.
    pub crc32c: Option<u32>,
    /// A directory that other members lie in: it needs nothing of its own.
    pub implied: bool,
    /// Reason why it is not unpacked, as code and text.
    pub refusal: Option<(String, String)>,
    /// True when the member cannot be unpacked (a device) or is left out on request: no failure.
    pub left_out: bool,
}

/// Admission of members in two passes, both in the order of the archive: [`admit`](Self::admit) builds the tree,
/// [`decide`](Self::decide) decides on each member.
pub(super) struct MemberAdmission {
    tree: MemberTree,
    holes: u64,
    /// Format of the archive.
    pub(super) format: Format,
    /// True when the checksums of lines count: they are from an index beside the archive, or of verified bytes.
    pub(super) sums: bool,
    /// True when an index lacks the checksum of a file.
    pub(super) lacks_sums: bool,
    admitted: u64,
    refused: HashMap<u64, (String, String)>,
    /// Members that hard links lead to, by ordinal, with their places once those are known.
    linked: HashSet<u64>,
    places: HashMap<u64, (MemberLocation, u64)>,
    /// Hard links, by ordinal, and the members that they lead to.
    links: HashMap<u64, u64>,
}

impl MemberAdmission {
    pub(super) fn new(options: &ScanOptions) -> Self {
        let policy = TreePolicy {
            links: options.links,
            duplicates: options.duplicates,
            nodes: usize::try_from(options.members).unwrap_or(usize::MAX),
            ..TreePolicy::default()
        };
        Self {
            tree: MemberTree::new(policy),
            holes: options.holes,
            format: Format::Plain,
            sums: true,
            lacks_sums: false,
            admitted: 0,
            refused: HashMap::new(),
            linked: HashSet::new(),
            places: HashMap::new(),
            links: HashMap::new(),
        }
    }

    /// True when the index states the checksum of every file.
    pub(super) fn has_all_sums(&self) -> bool {
        !self.lacks_sums
    }

    /// The next member.
    pub(super) fn admit(&mut self, member: &Member) {
        let ordinal = self.admitted;
        self.admitted += 1;
        if member.sparse.is_some() && member.size.saturating_sub(member.stored_size) > self.holes {
            return self.refuse(ordinal, MemberRefusal::HolesTooLarge);
        }
        if member.refusal.is_none() && MemberPath::new(&member.name).is_ok_and(|path| path.as_str().is_none()) {
            return self.refuse(ordinal, MemberRefusal::NameNotText);
        }
        // Before the link is in: it may replace what it leads to.
        let linked = self.find_link_target(member);
        match self.tree.admit(ordinal, member) {
            Err(refusal) => self.refuse(ordinal, refusal),
            Ok(_) => {
                if let Some(linked) = linked {
                    self.linked.insert(linked);
                    self.links.insert(ordinal, linked);
                }
            }
        }
    }

    /// The member that a hard link leads to.
    fn find_link_target(&self, member: &Member) -> Option<u64> {
        if member.kind != MemberKind::HardLink {
            return None;
        }
        let node = self.node(&MemberPath::new(&member.link).ok()?)?;
        match &self.tree.node(node) {
            TreeNode { kind: NodeKind::HardLink(file), .. } => self.tree.node(*file).member,
            // A link that a hard link has made has the place of the first one.
            TreeNode { member, .. } => member.map(|member| self.links.get(&member).copied().unwrap_or(member)),
        }
    }

    fn refuse(&mut self, ordinal: u64, refusal: MemberRefusal) {
        self.refused.insert(ordinal, (refusal.code().to_owned(), refusal.to_string()));
    }

    /// All members are in.
    pub(super) fn close(&mut self) {
        for (ordinal, refusal) in self.tree.finish() {
            self.refuse(ordinal, refusal);
        }
    }

    fn node(&self, path: &MemberPath) -> Option<NodeId> {
        let mut components = path.components();
        components.try_fold(self.tree.root(), |node, name| self.tree.lookup(node, name))
    }

    /// Decides like [`decide`](Self::decide) on the member of an index line.
    pub(super) fn admit_listed(&mut self, ordinal: u64, entry: &IndexMember, archive: &str) -> Option<FoundMember> {
        let crc32c = match entry.member.kind {
            // The checksum in the line is compared as the contents of a file are.
            MemberKind::SymbolicLink => Some(crc32c_of(&entry.member.link)),
            _ => entry.crc32c,
        };
        let location = MemberLocation::of(&entry.member, crc32c.filter(|_| self.sums));
        let format = self.format;
        self.decide(ordinal, &entry.member, location.map(|location| MemberLocation { format, ..location }), archive)
    }

    /// Returns the facts to report of a member; None where there are none (the root, a directory that comes again).
    /// `own` is its place, unless it is a hard link.
    pub(super) fn decide(
        &mut self,
        ordinal: u64,
        member: &Member,
        own: Option<MemberLocation>,
        archive: &str,
    ) -> Option<FoundMember> {
        let found = FoundMember {
            name: member.display_name(),
            kind: kind_word(member.kind),
            size: member.size,
            modified: member.mtime as f64 + f64::from(member.mtime_nanos) / 1e9,
            modified_ns: i128::from(member.mtime) * 1_000_000_000 + i128::from(member.mtime_nanos),
            mode: member.safe_mode(),
            link: String::from_utf8_lossy(&member.link).into_owned(),
            location: format!("{}.refused", member.header_offset),
            ..FoundMember::default()
        };
        let left_out = matches!(member.kind, MemberKind::CharacterDevice | MemberKind::BlockDevice | MemberKind::Fifo);
        if let Some(refusal) = self.refused.get(&ordinal) {
            let left_out = left_out || refusal.0 == MemberRefusal::LinkExcluded.code();
            return Some(FoundMember { refusal: Some(refusal.clone()), left_out, ..found });
        }
        let path = MemberPath::new(&member.name).ok()?;
        let own = own.map(|location| {
            let size = match location.kind {
                LocationKind::Directory => 0,
                LocationKind::Link => member.link.len() as u64,
                LocationKind::File | LocationKind::Sparse => member.size,
            };
            (location, size)
        });
        // Also of a member that a later one replaces: hard links made before keep its contents.
        if let Some(own) = own.filter(|_| self.linked.contains(&ordinal)) {
            self.places.insert(ordinal, own);
        }
        let node = self.node(&path)?;
        let placed = self.tree.node(node).member;
        if placed != Some(ordinal) {
            // Folders come again, and links to the same file under the same name.
            let again = member.kind == MemberKind::Directory || placed < Some(ordinal);
            let replaced = ("Replaced".to_owned(), "a later member has the same path".to_owned());
            return (!again).then_some(FoundMember { refusal: Some(replaced), left_out: true, ..found });
        }
        let location = match self.links.get(&ordinal) {
            Some(linked) => self.places.get(linked).copied(),
            None if member.kind == MemberKind::HardLink => None,
            None => own,
        };
        let Some((location, size)) = location else {
            // Its target was refused when all members were known.
            let refusal = (MemberRefusal::HardLinkTarget.code().to_owned(), MemberRefusal::HardLinkTarget.to_string());
            return Some(FoundMember { refusal: Some(refusal), ..found });
        };
        let mut text = path.as_str()?.to_owned();
        let directory = location.kind == LocationKind::Directory;
        if directory {
            if path.is_root() {
                return None;
            }
            text.push('/');
        }
        Some(FoundMember {
            path: text,
            size,
            location: location.to_string(),
            etag: member_etag(archive, location.header),
            crc32c: location.crc32c.filter(|_| !location.format.is_zip()),
            implied: directory && self.tree.children(node, None).next().is_some(),
            ..found
        })
    }
}

fn crc32c_of(bytes: &[u8]) -> u32 {
    let digest = Digester::of(DigestAlgorithm::Checksum(ChecksumAlgorithm::Crc32C), bytes);
    digest.try_into().map_or(0, u32::from_be_bytes)
}

fn kind_word(kind: MemberKind) -> &'static str {
    match kind {
        MemberKind::File => "file",
        MemberKind::Directory => "directory",
        MemberKind::HardLink => "hard_link",
        MemberKind::SymbolicLink => "symbolic_link",
        MemberKind::CharacterDevice => "character_device",
        MemberKind::BlockDevice => "block_device",
        MemberKind::Fifo => "fifo",
        MemberKind::Other(_) => "other",
    }
}
