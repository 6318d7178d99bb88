//! The tree that the members of an archive make: names to nodes, with collisions and links decided once.
//!
//! The mount looks names up here, `unpack` asks it what may be written. [`MemberTree::admit`] takes members in their
//! order; [`MemberTree::finish`] then refuses the symbolic links that lead out, following every link in between.
//! Existing files at a target are not known here: `unpack` must still open relative to directory handles without
//! following links.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use crate::member::{Member, MemberKind};
use crate::path::{HAS_DRIVES, MAXIMUM_PATH, MemberPath, is_elsewhere};
use crate::refusal::MemberRefusal;

/// Handling of symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkPolicy {
    /// Links that stay inside the tree.
    #[default]
    Inside,
    /// No links.
    Exclude,
    /// Every link, wherever it leads. For archives of trusted origin.
    All,
}

/// Handling of a second member with the path of an earlier one. Directories may always repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DuplicatePolicy {
    /// The later one is refused.
    #[default]
    Refuse,
    /// The later one counts, as `tar -x` would leave it.
    Last,
}

/// Rules of a tree, with its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreePolicy {
    /// Symbolic links.
    pub links: LinkPolicy,
    /// Repeated paths.
    pub duplicates: DuplicatePolicy,
    /// Refuse paths that differ only in case, for targets that cannot hold both.
    pub case_insensitive: bool,
    /// Most nodes, folders without a member of their own included. A node costs about 150 bytes of memory.
    pub nodes: usize,
    /// Most bytes of all files, with the holes of sparse ones.
    pub total: u64,
}

impl Default for TreePolicy {
    fn default() -> Self {
        Self {
            links: LinkPolicy::default(),
            duplicates: DuplicatePolicy::default(),
            case_insensitive: false,
            nodes: 50_000_000,
            total: u64::MAX,
        }
    }
}

/// A node of a tree. Ids stay valid while the tree lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

/// Kind of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKind {
    /// Directory, by a member or because a path passes through it.
    Directory,
    /// Regular file.
    File,
    /// Hard link to the file at another node.
    HardLink(NodeId),
    /// Symbolic link with its target.
    SymbolicLink(Box<[u8]>),
}

/// A node: its kind, its parent, and the member that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeNode {
    /// Kind.
    pub kind: NodeKind,
    /// Parent; the root is its own.
    pub parent: NodeId,
    /// Ordinal of the member; None for a folder that only paths imply.
    pub member: Option<u64>,
}

/// A path cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// A component does not exist.
    NotFound,
    /// A component before the last is a file.
    NotDirectory,
    /// Too many links or components.
    Loop,
    /// The path leads out of the tree.
    Outside,
}

/// Names and links of an archive.
///
/// # Examples
///
/// ```
/// use seqferry_archive::write::ArchiveEntry;
/// use seqferry_archive::{MemberRefusal, MemberTree, TreePolicy};
///
/// let mut tree = MemberTree::new(TreePolicy::default());
/// tree.admit(0, &ArchiveEntry::file("ref/genome.fa", 10).member())?;
/// tree.admit(1, &ArchiveEntry::symbolic_link("ref/latest", "genome.fa").member())?;
/// tree.admit(2, &ArchiveEntry::symbolic_link("ref/out", "../../etc").member())?;
///
/// assert_eq!(tree.finish(), [(2, MemberRefusal::LinkEscapes)]);
/// let file = tree.resolve(tree.root(), b"ref/latest").unwrap();
/// assert_eq!(tree.node(file).member, Some(0));
/// # Ok::<(), MemberRefusal>(())
/// ```
#[derive(Debug)]
pub struct MemberTree {
    policy: TreePolicy,
    nodes: Vec<TreeNode>,
    children: BTreeMap<(NodeId, Box<[u8]>), NodeId>,
    /// Lower-case names, kept where case collides.
    folded: HashMap<(NodeId, String), Box<[u8]>>,
    total: u64,
}

/// Links and components that one resolution may pass: Linux stops after 40 links, here components count as well so that
/// a hostile archive costs bounded time per link.
const RESOLUTION_STEPS: usize = 4096;
const RESOLUTION_LINKS: usize = 40;

impl MemberTree {
    /// A tree with a root only.
    pub fn new(policy: TreePolicy) -> Self {
        let root = TreeNode { kind: NodeKind::Directory, parent: NodeId(0), member: None };
        Self { policy, nodes: vec![root], children: BTreeMap::new(), folded: HashMap::new(), total: 0 }
    }

    /// The root.
    pub fn root(&self) -> NodeId {
        NodeId(0)
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &TreeNode {
        &self.nodes[id.0 as usize]
    }

    /// The child of a directory with this name, without following a link.
    pub fn lookup(&self, parent: NodeId, name: &[u8]) -> Option<NodeId> {
        self.children.get(&(parent, name.into())).copied()
    }

    /// Children of a directory by name, in the order of bytes, from behind `after` on.
    pub fn children(&self, parent: NodeId, after: Option<&[u8]>) -> impl Iterator<Item = (&[u8], NodeId)> {
        let start = match after {
            Some(name) => Bound::Excluded((parent, name.into())),
            None => Bound::Included((parent, Box::default())),
        };
        let range = self.children.range((start, Bound::Unbounded));
        range.take_while(move |((owner, _), _)| *owner == parent).map(|((_, name), id)| (&**name, *id))
    }

    /// Add the member with this ordinal, or refuse it. A refused member leaves only the folders that its path implies.
    pub fn admit(&mut self, ordinal: u64, member: &Member) -> Result<NodeId, MemberRefusal> {
        if let Some(refusal) = member.refusal {
            return Err(refusal);
        }
        let path = MemberPath::new(&member.name)?;
        if path.is_root() {
            if member.kind != MemberKind::Directory {
                return Err(MemberRefusal::RootNotDirectory);
            }
            self.nodes[0].member = Some(ordinal);
            return Ok(self.root());
        }
        let (kind, linked) = self.kind(member)?;
        let total = self.total.checked_add(member.size).filter(|total| *total <= self.policy.total);
        let total = total.ok_or(MemberRefusal::TotalTooLarge)?;
        let mut parent = self.root();
        let mut components = path.components().peekable();
        while let Some(name) = components.next() {
            if components.peek().is_none() {
                let id = match self.lookup(parent, name) {
                    // The same file under the same name again: `tar -c a a` writes a link of `a` to itself.
                    Some(id) if linked.is_some_and(|linked| id == linked || self.node(id).kind == kind) => {
                        return Ok(id);
                    }
                    _ => self.place(parent, name, &kind, ordinal)?,
                };
                self.total = total;
                return Ok(id);
            }
            parent = match self.lookup(parent, name) {
                Some(id) if self.node(id).kind == NodeKind::Directory => id,
                Some(_) => return Err(MemberRefusal::ParentNotDirectory),
                None => self.insert(parent, name, NodeKind::Directory, None)?,
            };
        }
        Err(MemberRefusal::EmptyName)
    }

    /// The kind of a member, and the node that a hard link leads to.
    fn kind(&self, member: &Member) -> Result<(NodeKind, Option<NodeId>), MemberRefusal> {
        match member.kind {
            MemberKind::File => Ok((NodeKind::File, None)),
            MemberKind::Directory => Ok((NodeKind::Directory, None)),
            MemberKind::HardLink => self.hard_link(&member.link).map(|(kind, linked)| (kind, Some(linked))),
            MemberKind::SymbolicLink => Ok((self.symbolic_link(&member.link)?, None)),
            MemberKind::CharacterDevice | MemberKind::BlockDevice => Err(MemberRefusal::Device),
            MemberKind::Fifo => Err(MemberRefusal::Fifo),
            MemberKind::Other(_) => Err(MemberRefusal::UnsupportedType),
        }
    }

    /// The node that a hard link names: an earlier file or symbolic link of this archive, found without following any
    /// symbolic link. A hard link to a symbolic link is a symbolic link with the same target.
    fn hard_link(&self, target: &[u8]) -> Result<(NodeKind, NodeId), MemberRefusal> {
        if target.is_empty() {
            return Err(MemberRefusal::LinkEmpty);
        }
        let path = MemberPath::new(target).map_err(|refusal| match refusal {
            MemberRefusal::AbsolutePath | MemberRefusal::DriveOrUnc => MemberRefusal::LinkAbsolute,
            MemberRefusal::ParentComponent => MemberRefusal::LinkEscapes,
            _ => MemberRefusal::HardLinkTarget,
        })?;
        let mut id = self.root();
        for name in path.components() {
            id = self.lookup(id, name).ok_or(MemberRefusal::HardLinkTarget)?;
        }
        match &self.node(id).kind {
            NodeKind::File => Ok((NodeKind::HardLink(id), id)),
            NodeKind::HardLink(file) => Ok((NodeKind::HardLink(*file), *file)),
            NodeKind::SymbolicLink(target) => Ok((NodeKind::SymbolicLink(target.clone()), id)),
            NodeKind::Directory => Err(MemberRefusal::HardLinkTarget),
        }
    }

    fn symbolic_link(&self, target: &[u8]) -> Result<NodeKind, MemberRefusal> {
        if self.policy.links == LinkPolicy::Exclude {
            return Err(MemberRefusal::LinkExcluded);
        }
        if target.is_empty() {
            return Err(MemberRefusal::LinkEmpty);
        }
        if target.len() > MAXIMUM_PATH {
            return Err(MemberRefusal::LinkTooLong);
        }
        if self.policy.links == LinkPolicy::Inside && is_absolute(target) {
            return Err(MemberRefusal::LinkAbsolute);
        }
        Ok(NodeKind::SymbolicLink(target.into()))
    }

    fn place(&mut self, parent: NodeId, name: &[u8], kind: &NodeKind, ordinal: u64) -> Result<NodeId, MemberRefusal> {
        let Some(id) = self.lookup(parent, name) else {
            return self.insert(parent, name, kind.clone(), Some(ordinal));
        };
        match (&self.node(id).kind, kind) {
            (NodeKind::Directory, NodeKind::Directory) => {
                self.nodes[id.0 as usize].member = Some(ordinal);
                Ok(id)
            }
            (NodeKind::Directory, _) => Err(MemberRefusal::IsDirectory),
            _ if self.policy.duplicates == DuplicatePolicy::Refuse => Err(MemberRefusal::Duplicate),
            // Directories never replace: members before could be reached through the old node.
            (_, NodeKind::Directory) => Err(MemberRefusal::Duplicate),
            // A new node: hard links made before keep the old file.
            _ => {
                let id = self.push(parent, kind.clone(), Some(ordinal))?;
                self.children.insert((parent, name.into()), id);
                Ok(id)
            }
        }
    }

    fn insert(
        &mut self,
        parent: NodeId,
        name: &[u8],
        kind: NodeKind,
        member: Option<u64>,
    ) -> Result<NodeId, MemberRefusal> {
        if self.policy.case_insensitive {
            let folded = String::from_utf8_lossy(name).to_lowercase();
            let known = self.folded.entry((parent, folded)).or_insert_with(|| name.into());
            if **known != *name {
                return Err(MemberRefusal::CaseCollision);
            }
        }
        let id = self.push(parent, kind, member)?;
        self.children.insert((parent, name.into()), id);
        Ok(id)
    }

    fn push(&mut self, parent: NodeId, kind: NodeKind, member: Option<u64>) -> Result<NodeId, MemberRefusal> {
        let id = u32::try_from(self.nodes.len()).map_err(|_| MemberRefusal::TreeTooLarge)?;
        if self.nodes.len() >= self.policy.nodes {
            return Err(MemberRefusal::TreeTooLarge);
        }
        self.nodes.push(TreeNode { kind, parent, member });
        Ok(NodeId(id))
    }

    /// Refuse the symbolic links that lead out of the tree, directly or through others, and remove them. Returns their
    /// ordinals. To be called once all members are in, before any link is created or followed.
    pub fn finish(&mut self) -> Vec<(u64, MemberRefusal)> {
        if self.policy.links == LinkPolicy::All {
            return Vec::new();
        }
        let mut removed = Vec::new();
        for ((parent, name), id) in &self.children {
            let TreeNode { kind: NodeKind::SymbolicLink(target), member, .. } = self.node(*id) else { continue };
            let refusal = match self.resolve(*parent, target) {
                Err(PathError::Outside) => MemberRefusal::LinkEscapes,
                Err(PathError::Loop) => MemberRefusal::LinkLoop,
                // Links to nowhere are harmless, and usual in references that were cut to a region.
                Ok(_) | Err(PathError::NotFound | PathError::NotDirectory) => continue,
            };
            removed.push(((*parent, name.clone()), member.unwrap_or_default(), refusal));
        }
        let mut refused = Vec::with_capacity(removed.len());
        for (key, member, refusal) in removed {
            self.children.remove(&key);
            refused.push((member, refusal));
        }
        refused.sort_unstable();
        refused
    }

    /// The node at `path`, seen from the directory `from`, with all links followed. Components behind one that does not
    /// exist still count: a path may not leave the tree there either.
    pub fn resolve(&self, from: NodeId, path: &[u8]) -> Result<NodeId, PathError> {
        // `ahead`: components that remain, nearest last. `ancestors`: nodes from the root; None for one that is
        // missing.
        let mut ahead: Vec<&[u8]> = path.rsplit(|byte| *byte == b'/').collect();
        let mut ancestors = self.ancestors(from);
        let (mut steps, mut links, mut failure) = (0, 0, None);
        if is_absolute(path) {
            return Err(PathError::Outside);
        }
        while let Some(name) = ahead.pop() {
            steps += 1;
            if steps > RESOLUTION_STEPS || ahead.len() > RESOLUTION_STEPS {
                return Err(PathError::Loop);
            }
            match name {
                b".." if ancestors.pop().is_none() => return Err(PathError::Outside),
                b"" | b"." | b".." => continue,
                _ => {}
            }
            let here = ancestors.last().copied().unwrap_or(Some(self.root()));
            let found = here.and_then(|here| self.lookup(here, name));
            let Some(id) = found else {
                let file = here.is_some_and(|here| self.node(here).kind != NodeKind::Directory);
                failure = failure.or(Some(if file { PathError::NotDirectory } else { PathError::NotFound }));
                ancestors.push(None);
                continue;
            };
            if let NodeKind::SymbolicLink(target) = &self.node(id).kind {
                links += 1;
                if links > RESOLUTION_LINKS {
                    return Err(PathError::Loop);
                }
                if is_absolute(target) {
                    return Err(PathError::Outside);
                }
                ahead.extend(target.rsplit(|byte| *byte == b'/'));
                continue;
            }
            ancestors.push(Some(id));
        }
        match failure {
            Some(failure) => Err(failure),
            None => ancestors.last().copied().unwrap_or(Some(self.root())).ok_or(PathError::NotFound),
        }
    }

    fn ancestors(&self, from: NodeId) -> Vec<Option<NodeId>> {
        let mut ancestors = Vec::new();
        let mut id = from;
        while id != self.root() {
            ancestors.push(Some(id));
            id = self.node(id).parent;
        }
        ancestors.reverse();
        ancestors
    }
}

fn is_absolute(target: &[u8]) -> bool {
    target.starts_with(b"/") || HAS_DRIVES && is_elsewhere(target)
}
