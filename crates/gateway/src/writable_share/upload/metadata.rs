//! Attributes of a file in the metadata of its object.

use seqferry_store::{Attributes, ObjectMeta, StoredMetadata};

use crate::overlay::{MARK, Node, NodeContent, OpenUpload, STATED_GID, STATED_MODE, STATED_MODIFIED, STATED_UID};

/// Types of files, as modes have them.
const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;

/// Attributes of a file, as objects keep them. Facts taken from `source`, the object that it was, stay as that states
/// them.
fn stored(node: &Node, source: Option<&ObjectMeta>) -> StoredMetadata {
    let kind = match node.content {
        NodeContent::File(_) => REGULAR,
        NodeContent::Directory => DIRECTORY,
        NodeContent::Link(_) => LINK,
    };
    let is_stated = |bit: u8| node.stated & bit != 0 || kind == LINK && bit == STATED_MODE;
    let kept = source.map(|source| StoredMetadata::of(&source.attributes.metadata)).unwrap_or_default();
    let is_written = |bit: u8, has_source: bool| is_stated(bit) && !(has_source && node.is_fact_as_base(bit));
    StoredMetadata {
        modified: is_written(STATED_MODIFIED, kept.modified.is_some()).then(|| time_of(node.modified)),
        mode: is_written(STATED_MODE, kept.mode.is_some()).then_some(kind | node.mode),
        uid: is_written(STATED_UID, kept.uid.is_some()).then_some(node.uid),
        gid: is_written(STATED_GID, kept.gid.is_some()).then_some(node.gid),
    }
}

/// Attributes of the object that a write makes of a file: those of the object that the file was, its attributes, and
/// the mark of this write alone.
pub(super) fn attributes_of(node: &Node, open: &OpenUpload, source: Option<&ObjectMeta>) -> Attributes {
    let mut attributes = source.map(|source| source.attributes.clone()).unwrap_or_default();
    stored(node, source).write(&mut attributes.metadata);
    // The mark of the write before is not inherited.
    attributes.metadata.remove(MARK);
    attributes.metadata.extend(open.mark().map(|mark| (MARK.to_owned(), mark)));
    attributes
}

/// True when an object has the size, time, mode and owner of a file. They are statements of a client: they do not prove
/// that it is the file.
pub(super) fn has_facts(node: &Node, there: &ObjectMeta) -> bool {
    let (ours, theirs) = (stored(node, None), StoredMetadata::of(&there.attributes.metadata));
    there.size == node.attributes().size
        && ours.modified == theirs.modified
        && ours.mode.is_none_or(|mode| theirs.mode == Some(mode))
        && ours.uid.is_none_or(|uid| theirs.uid == Some(uid))
        && ours.gid.is_none_or(|gid| theirs.gid == Some(gid))
}

/// Seconds and nanoseconds of a time.
fn time_of(nanoseconds: u64) -> (i64, u32) {
    let seconds = i64::try_from(nanoseconds / 1_000_000_000).unwrap_or(i64::MAX);
    (seconds, u32::try_from(nanoseconds % 1_000_000_000).unwrap_or_default())
}
