//! The members of one archive as a fixed tree: compact, sorted, and closed under its links.
//!
//! Nodes are numbered by breadth, so that the children of a directory are neighbours in the order of their names: a
//! lookup is a binary search, and a place in a directory is a number that stays valid.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::SystemTime;

use seqferry_archive::member::{MemberPiece, pieces};
use seqferry_archive::tree::{DuplicatePolicy, NodeId, NodeKind};
use seqferry_archive::{Member, MemberPath, MemberTree, TreePolicy};

use crate::tree::exact_time;

/// Members that are named among the refused ones.
const NAMED: usize = 100;

/// The tree of an archive.
#[derive(Debug)]
pub struct ArchiveContents {
    nodes: Vec<ContentsNode>,
    names: Vec<u8>,
    members: Vec<MemberRow>,
    refused: u64,
    named: Vec<RefusedMember>,
    proven: bool,
}

/// A member that does not appear, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedMember {
    /// Its name, for messages.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// Type of a [`MemberNode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberNodeKind {
    /// Directory.
    Directory,
    /// Regular file; also a hard link to one.
    File,
    /// Symbolic link.
    Symlink,
}

#[derive(Debug, Clone, Copy)]
struct ContentsNode {
    parent: u32,
    name: (u32, u16),
    kind: NodeData,
    /// Row of the member; none for folders that only paths imply.
    row: Option<u32>,
}

/// Type of a node, with the places of its children or its target.
#[derive(Debug, Clone, Copy)]
enum NodeData {
    /// First child, and number of children.
    Directory(u32, u32),
    File,
    /// Place of the target in the names.
    Symlink(u32, u16),
}

/// Attributes of a member.
#[derive(Debug, Clone)]
struct MemberRow {
    header_offset: u64,
    data_offset: u64,
    stored_size: u64,
    size: u64,
    path: u64,
    mtime: i64,
    mtime_nanos: u32,
    mode: u16,
    uid: u32,
    gid: u32,
    sparse: Option<Box<[(u64, u64)]>>,
}

/// A node, as others see it.
#[derive(Debug, Clone, Copy)]
pub struct MemberNode<'a> {
    contents: &'a ArchiveContents,
    number: u32,
    node: &'a ContentsNode,
}

/// Hash of a path, for the comparison of a member with its headers.
pub(super) fn path_hash(path: &MemberPath) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.as_bytes().hash(&mut hasher);
    hasher.finish()
}

/// Takes members in the order of the archive.
#[derive(Debug)]
pub(super) struct ContentsBuilder {
    tree: MemberTree,
    rows: Vec<MemberRow>,
    refused: u64,
    named: Vec<RefusedMember>,
}

impl ContentsBuilder {
    pub(super) fn new(most: usize) -> Self {
        // As `tar -x` would leave it: the last of two members with one path.
        let policy = TreePolicy { duplicates: DuplicatePolicy::Last, nodes: most, ..TreePolicy::default() };
        Self { tree: MemberTree::new(policy), rows: Vec::new(), refused: 0, named: Vec::new() }
    }

    /// Add a member, or count it as refused.
    pub(super) fn add(&mut self, member: &Member) {
        if let Err(refusal) = self.tree.admit(self.rows.len() as u64, member) {
            self.refuse(member.display_name(), refusal.to_string());
            return;
        }
        let path = MemberPath::new(&member.name).map_or(0, |path| path_hash(&path));
        self.rows.push(MemberRow {
            header_offset: member.header_offset,
            data_offset: member.data_offset,
            stored_size: member.stored_size,
            size: member.size,
            path,
            mtime: member.mtime,
            mtime_nanos: member.mtime_nanos,
            mode: u16::try_from(member.safe_mode()).unwrap_or(0o644),
            uid: u32::try_from(member.uid).unwrap_or(u32::MAX),
            gid: u32::try_from(member.gid).unwrap_or(u32::MAX),
            sparse: member.sparse.as_ref().map(|map| map.0.clone().into_boxed_slice()),
        });
    }

    fn refuse(&mut self, name: String, reason: String) {
        self.refused += 1;
        if self.named.len() < NAMED {
            self.named.push(RefusedMember { name, reason });
        }
    }

    /// The tree, once all members are in. `proven`: the places come from the headers of the archive itself.
    pub(super) fn finish(mut self, proven: bool) -> ArchiveContents {
        for (_, refusal) in self.tree.finish() {
            self.refuse("a symbolic link".to_owned(), refusal.to_string());
        }
        let mut contents = ArchiveContents {
            nodes: vec![ContentsNode {
                parent: 0,
                name: (0, 0),
                kind: NodeData::Directory(0, 0),
                row: row(&self.tree, self.tree.root()),
            }],
            names: Vec::new(),
            members: Vec::new(),
            refused: self.refused,
            named: self.named,
            proven,
        };
        let mut directories: VecDeque<(u32, NodeId)> = VecDeque::from([(0, self.tree.root())]);
        while let Some((number, id)) = directories.pop_front() {
            let first = index(contents.nodes.len());
            for (name, child) in self.tree.children(id, None) {
                let child_number = index(contents.nodes.len());
                match contents.place(&self.tree, number, name, child) {
                    Ok(true) => directories.push_back((child_number, child)),
                    Ok(false) => {}
                    Err(reason) => contents.refuse(name, reason),
                }
            }
            let count = index(contents.nodes.len()) - first;
            contents.nodes[number as usize].kind = NodeData::Directory(first, count);
        }
        contents.members = self.rows;
        contents
    }
}

/// Numbers of nodes, rows and names: the policy of the tree bounds them far below.
fn index(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn row(tree: &MemberTree, id: NodeId) -> Option<u32> {
    tree.node(id).member.and_then(|ordinal| u32::try_from(ordinal).ok())
}

impl ArchiveContents {
    /// Add a node; whether it is a directory.
    fn place(&mut self, tree: &MemberTree, parent: u32, name: &[u8], id: NodeId) -> Result<bool, &'static str> {
        if std::str::from_utf8(name).is_err() {
            return Err("the name is not UTF-8");
        }
        let (kind, row) = match &tree.node(id).kind {
            NodeKind::Directory => (NodeData::Directory(0, 0), row(tree, id)),
            NodeKind::File => (NodeData::File, row(tree, id)),
            NodeKind::HardLink(file) => (NodeData::File, row(tree, *file)),
            NodeKind::SymbolicLink(target) => {
                let (start, len) = self.text(target)?;
                (NodeData::Symlink(start, len), row(tree, id))
            }
        };
        let name = self.text(name)?;
        self.nodes.push(ContentsNode { parent, name, kind, row });
        Ok(matches!(kind, NodeData::Directory(..)))
    }

    fn text(&mut self, text: &[u8]) -> Result<(u32, u16), &'static str> {
        let place = u32::try_from(self.names.len()).ok().zip(u16::try_from(text.len()).ok());
        self.names.extend_from_slice(text);
        place.ok_or("the names of the archive are longer than the limit")
    }

    fn refuse(&mut self, name: &[u8], reason: &str) {
        self.refused += 1;
        if self.named.len() < NAMED {
            let name = name.escape_ascii().to_string();
            self.named.push(RefusedMember { name, reason: reason.to_owned() });
        }
    }

    /// Returns true when this program read the places of members from the headers of the archive itself.
    pub fn is_proven(&self) -> bool {
        self.proven
    }

    /// Number of nodes, the root included.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns true when there is nothing but the root.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    /// Number of members that do not appear, and the first of them.
    pub fn refused(&self) -> (u64, &[RefusedMember]) {
        (self.refused, &self.named)
    }

    /// A node. The root is number 0.
    pub fn node(&self, number: u32) -> Option<MemberNode<'_>> {
        self.nodes.get(number as usize).map(|node| MemberNode { contents: self, number, node })
    }

    fn bytes(&self, (start, len): (u32, u16)) -> &[u8] {
        let start = start as usize;
        self.names.get(start..start + usize::from(len)).unwrap_or_default()
    }
}

impl<'a> MemberNode<'a> {
    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Number of its directory; the root is its own.
    pub fn parent(&self) -> u32 {
        self.node.parent
    }

    /// Its name; empty for the root.
    pub fn name(&self) -> &'a str {
        // Only names that are text were placed.
        std::str::from_utf8(self.contents.bytes(self.node.name)).unwrap_or_default()
    }

    /// Type of the node.
    pub fn kind(&self) -> MemberNodeKind {
        match self.node.kind {
            NodeData::Directory(..) => MemberNodeKind::Directory,
            NodeData::File => MemberNodeKind::File,
            NodeData::Symlink(..) => MemberNodeKind::Symlink,
        }
    }

    /// Target of a symbolic link; empty for all others.
    pub fn target(&self) -> &'a [u8] {
        match self.node.kind {
            NodeData::Symlink(start, len) => self.contents.bytes((start, len)),
            _ => &[],
        }
    }

    /// Children of a directory from place `from` on, in the order of their names.
    pub fn children(&self, from: u32) -> impl Iterator<Item = MemberNode<'a>> + use<'a> {
        let (first, count) = match self.node.kind {
            NodeData::Directory(first, count) => (first, count),
            _ => (0, 0),
        };
        let contents = self.contents;
        (first.saturating_add(from.min(count))..first + count).filter_map(|number| contents.node(number))
    }

    /// The child with this name.
    pub fn child(&self, name: &str) -> Option<MemberNode<'a>> {
        let NodeData::Directory(first, count) = self.node.kind else { return None };
        let children = self.contents.nodes.get(first as usize..(first + count) as usize)?;
        let found = children.binary_search_by(|node| self.contents.bytes(node.name).cmp(name.as_bytes())).ok()?;
        self.contents.node(first + index(found))
    }

    fn row(&self) -> Option<&'a MemberRow> {
        self.contents.members.get(self.node.row? as usize)
    }

    /// Bytes of a file or of the target of a link; 0 for a directory.
    pub fn size(&self) -> u64 {
        match self.node.kind {
            NodeData::File => self.row().map_or(0, |row| row.size),
            NodeData::Symlink(_, len) => u64::from(len),
            NodeData::Directory(..) => 0,
        }
    }

    /// Modification time; None for a folder that only paths imply.
    pub fn modified(&self) -> Option<SystemTime> {
        self.row().and_then(|row| exact_time(row.mtime, row.mtime_nanos))
    }

    /// Permission bits without set-id and sticky bits; None for a folder that only paths imply.
    pub fn permissions(&self) -> Option<u16> {
        self.row().map(|row| row.mode)
    }

    /// Owner and group, as the archive has them.
    pub fn owner(&self) -> Option<(u32, u32)> {
        self.row().map(|row| (row.uid, row.gid))
    }

    /// Offset in the archive at which the headers of a file begin; None for others.
    pub(super) fn header_offset(&self) -> Option<u64> {
        (self.kind() == MemberNodeKind::File).then(|| self.row().map(|row| row.header_offset))?
    }

    /// Returns true when headers that were read at its place are those of this file.
    pub(super) fn is(&self, found: &Member) -> bool {
        let path = MemberPath::new(&found.name).map(|path| path_hash(&path));
        self.row().is_some_and(|row| {
            let sparse = found.sparse.as_ref().map(|map| map.0.as_slice());
            found.kind == seqferry_archive::MemberKind::File
                && found.refusal.is_none()
                && path == Ok(row.path)
                && (found.data_offset, found.stored_size, found.size) == (row.data_offset, row.stored_size, row.size)
                && sparse == row.sparse.as_deref()
        })
    }

    /// Offset in the archive at which the bytes of the file begin; None unless they lie in one piece.
    pub fn contiguous(&self) -> Option<u64> {
        let row = self.row()?;
        (self.kind() == MemberNodeKind::File && row.sparse.is_none()).then_some(row.data_offset)
    }

    /// The pieces that a range of the file consists of, cut at its end.
    pub fn pieces(&self, offset: u64, len: u64) -> Vec<MemberPiece> {
        let Some(row) = self.row().filter(|_| self.kind() == MemberNodeKind::File) else { return Vec::new() };
        pieces(row.data_offset, row.size, row.sparse.as_deref(), offset, len)
    }
}
