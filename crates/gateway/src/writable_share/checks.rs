//! Rights of callers, and names that can become keys.

use seqferry_share::{Access, Attributes, Caller, FileError, Result, SetAttributes, TimeUpdate};
use seqferry_vfs::tree::names::{HiddenReason, check_name};

use super::{CONFLICTS, PARTS};
use crate::file_table::ROOT;
use crate::overlay::{Node, STATED_GID, STATED_MODE, STATED_MODIFIED, STATED_UID, nanoseconds, now};
use crate::prefix_claim::CLAIM;

/// The objects at the top of a share that show whether the service keeps conditions of writes, and of copies. They are
/// no files of the share, and there for a moment when a file is uploaded or renamed for the first time.
pub(super) const PROBE: &str = ".seqferry-probe";
pub(super) const COPIED_PROBE: &str = ".seqferry-probe-copy";
/// Longest key of S3, in bytes.
pub(super) const LONGEST_KEY: usize = 1024;
/// Objects with this ending show as links without it.
const LINK_ENDING: &str = ".rclonelink";
const SET_ID: u32 = 0o6000;
const SET_GID: u32 = 0o2000;
const STICKY: u32 = 0o1000;

/// A name that an object can have, and that shows as it was given.
pub(super) fn checked_name(name: &[u8]) -> Result<&str> {
    let name = std::str::from_utf8(name).map_err(|_| FileError::Invalid)?;
    if name.ends_with(LINK_ENDING) {
        return Err(FileError::Invalid);
    }
    match check_name(name) {
        Ok(()) => Ok(name),
        Err(HiddenReason::NameTooLong) => Err(FileError::NameTooLong),
        Err(_) => Err(FileError::Invalid),
    }
}

/// True for the name of an object that is no file of the share. Below the top the names are those of files: a claim
/// there is another gateway's.
pub(super) fn is_reserved(parent: u64, name: &str) -> bool {
    parent == ROOT && matches!(name, PROBE | COPIED_PROBE | CLAIM | PARTS)
}

/// True for a name that clients may not give: a reserved one, and to all but folders that of the folder of conflicts.
pub(super) fn is_refused(parent: u64, name: &str, is_directory: bool) -> bool {
    is_reserved(parent, name) || parent == ROOT && name == CONFLICTS && !is_directory
}

fn is_owner(caller: &Caller, attributes: &Attributes) -> bool {
    caller.uid == 0 || caller.uid == attributes.uid
}

/// Refuse a caller without these rights. The owner of a file may read and write it whatever its mode is: a program may
/// have opened it before the mode was changed.
pub(super) fn check_data(caller: &Caller, attributes: &Attributes, rights: &[Access]) -> Result<()> {
    let granted = attributes.access(caller);
    let is_allowed = is_owner(caller, attributes) || rights.iter().any(|right| granted.includes(*right));
    if is_allowed { Ok(()) } else { Err(FileError::AccessDenied) }
}

pub(super) fn check(caller: &Caller, attributes: &Attributes, right: Access) -> Result<()> {
    if attributes.access(caller).includes(right) { Ok(()) } else { Err(FileError::AccessDenied) }
}

/// Refuse a caller that may not remove a name from a directory.
pub(super) fn check_removal(caller: &Caller, directory: &Attributes, file: &Attributes) -> Result<()> {
    let is_sticky = directory.mode & STICKY != 0;
    if is_sticky && !is_owner(caller, directory) && !is_owner(caller, file) {
        return Err(FileError::AccessDenied);
    }
    Ok(())
}

/// Refuse facts that the caller may not set.
pub(super) fn check_set(caller: &Caller, attributes: &Attributes, set: &SetAttributes) -> Result<()> {
    let is_owner = is_owner(caller, attributes);
    let is_given_away = set.uid.is_some_and(|uid| uid != attributes.uid) && caller.uid != 0;
    let is_foreign_group =
        set.gid.is_some_and(|gid| gid != attributes.gid && caller.uid != 0 && !(is_owner && caller.is_in_group(gid)));
    let states_time = |time: Option<TimeUpdate>| matches!(time, Some(TimeUpdate::At(_)));
    let needs_owner = set.mode.is_some() || states_time(set.accessed) || states_time(set.modified);
    if is_given_away || is_foreign_group || (needs_owner && !is_owner) {
        return Err(FileError::NotPermitted);
    }
    if set.size.is_some() || set.accessed.is_some() || set.modified.is_some() {
        return check_data(caller, attributes, &[Access::MODIFY]);
    }
    Ok(())
}

/// Set facts apart from the size.
pub(super) fn apply(node: &mut Node, caller: &Caller, set: &SetAttributes) {
    let is_directory = matches!(node.content, crate::overlay::NodeContent::Directory);
    if (set.uid.is_some() || set.gid.is_some()) && !is_directory && caller.uid != 0 {
        clear_set_id(node);
    }
    if let Some(uid) = set.uid {
        node.uid = uid;
        node.state(STATED_UID);
    }
    if let Some(gid) = set.gid {
        node.gid = gid;
        node.state(STATED_GID);
    }
    if let Some(mode) = set.mode {
        let is_member = caller.uid == 0 || caller.is_in_group(node.gid);
        node.mode = if is_member || is_directory { mode } else { mode & !SET_GID };
        node.state(STATED_MODE);
    }
    let time = |time: TimeUpdate| match time {
        TimeUpdate::Now => now(),
        TimeUpdate::At(time) => nanoseconds(time),
    };
    if let Some(accessed) = set.accessed {
        node.accessed = time(accessed);
    }
    if let Some(modified) = set.modified {
        node.modified = time(modified);
        node.state(STATED_MODIFIED);
    }
}

fn clear_set_id(node: &mut Node) {
    if node.mode & SET_ID != 0 {
        node.mode &= !SET_ID;
        node.state(STATED_MODE);
    }
}

/// A write by a user other than root clears the set-user-id and set-group-id bits.
pub(super) fn drop_set_id(node: &mut Node, caller: &Caller) {
    if caller.uid != 0 {
        clear_set_id(node);
    }
}

/// Group of what is made in a directory, and the bit that its folders inherit.
pub(super) fn inherited_group(directory: &Attributes, caller: &Caller) -> (u32, u32) {
    if directory.mode & SET_GID == 0 { (caller.gid, 0) } else { (directory.gid, SET_GID) }
}
