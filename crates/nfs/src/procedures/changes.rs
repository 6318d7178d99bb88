//! Procedures that change names and attributes: SETATTR, CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME, LINK.

use std::time::SystemTime;

use bytes::Bytes;
use nfs3_types::nfs3::{
    CREATE3resok, Nfs3Option, REMOVE3resok, RENAME3resok, SETATTR3resok, nfs_fh3, nfsstat3, post_op_attr, sattr3,
    set_atime, set_mtime, wcc_data,
};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack};
use seqferry_share::{CreateMode, CreateResult, FileError, Result as FileResult, SetAttributes, TimeUpdate};

use super::{check_change, check_name};
use crate::context::{Context, Peer, Target};
use crate::error::status_of;
use crate::reply::Payload;
use crate::xdr::{Decoder, Malformed};

/// Longest target of a link that clients can follow.
const MAX_LINK_TARGET: usize = 4095;

/// A name in a directory.
struct DirOpArgs {
    directory: Bytes,
    name: Bytes,
}

impl DirOpArgs {
    fn decode(args: &mut Decoder) -> Result<Self, Malformed> {
        Ok(Self { directory: args.handle()?, name: args.name()? })
    }

    /// Refuses a name that cannot be given to a file.
    fn check(&self, target: &Target<'_>) -> FileResult<()> {
        match &*self.name {
            b"." | b".." if !target.share().is_read_only() => Err(FileError::Exists),
            name => check_change(target).and_then(|()| check_name(name, target.share().limits())),
        }
    }

    /// Refuses a name that cannot be removed.
    fn check_removal(&self, target: &Target<'_>) -> FileResult<()> {
        match &*self.name {
            b"." | b".." if !target.share().is_read_only() => Err(FileError::Invalid),
            name => check_change(target).and_then(|()| check_name(name, target.share().limits())),
        }
    }
}

pub(super) async fn setattr(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let (handle, attributes, guard) = (args.handle()?, set_attributes(&mut args)?, args.optional_time()?);
    args.end()?;
    let target = match context.target(peer, &handle) {
        Ok(target) => target,
        Err(status) => return Ok(nothing_changed(status)),
    };
    let unchanged_since = guard.map(SystemTime::from);
    let is_too_large = attributes.size.is_some_and(|size| size > target.share().limits().max_file_size);
    let changed = match check_change(&target) {
        Err(error) => Err(error),
        Ok(()) if is_too_large => Err(FileError::TooLarge),
        Ok(()) => target.share().set_attributes(&target.caller, target.file, attributes, unchanged_since).await,
    };
    Ok(match changed {
        Ok(changed) => Payload::succeeded(&SETATTR3resok { obj_wcc: target.changed(&changed) }),
        Err(error) => target.change_failed(error).await,
    })
}

pub(super) async fn create(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let place = DirOpArgs::decode(&mut args)?;
    let how = match args.number()? {
        0 => CreateMode::Unchecked(set_attributes(&mut args)?),
        1 => CreateMode::Guarded(set_attributes(&mut args)?),
        2 => CreateMode::Exclusive(args.fixed()?),
        _ => return Err(Malformed),
    };
    args.end()?;
    let target = match context.target(peer, &place.directory) {
        Ok(target) => target,
        Err(status) => return Ok(nothing_changed(status)),
    };
    let created = match place.check(&target) {
        Ok(()) => target.share().create(&target.caller, target.file, &place.name, how).await,
        Err(error) => Err(error),
    };
    Ok(answer_created(&target, created).await)
}

pub(super) async fn mkdir(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let (place, attributes) = (DirOpArgs::decode(&mut args)?, set_attributes(&mut args)?);
    args.end()?;
    let target = match context.target(peer, &place.directory) {
        Ok(target) => target,
        Err(status) => return Ok(nothing_changed(status)),
    };
    let created = match place.check(&target) {
        Ok(()) => target.share().create_directory(&target.caller, target.file, &place.name, attributes).await,
        Err(error) => Err(error),
    };
    Ok(answer_created(&target, created).await)
}

pub(super) async fn symlink(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let (place, attributes, path) = (DirOpArgs::decode(&mut args)?, set_attributes(&mut args)?, args.name()?);
    args.end()?;
    let target = match context.target(peer, &place.directory) {
        Ok(target) => target,
        Err(status) => return Ok(nothing_changed(status)),
    };
    let created = match place.check(&target) {
        Err(error) => Err(error),
        Ok(()) if path.len() > MAX_LINK_TARGET => Err(FileError::NameTooLong),
        Ok(()) if path.is_empty() || path.contains(&0) => Err(FileError::Invalid),
        Ok(()) => target.share().create_link(&target.caller, target.file, &place.name, path, attributes).await,
    };
    Ok(answer_created(&target, created).await)
}

/// No share has devices, sockets or pipes.
pub(super) async fn mknod(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let place = DirOpArgs::decode(&mut args)?;
    let _type = args.number()?;
    let target = match context.target(peer, &place.directory) {
        Ok(target) => target,
        Err(status) => return Ok(nothing_changed(status)),
    };
    let refusal = check_change(&target).err().unwrap_or(FileError::NotSupported);
    Ok(target.change_failed(refusal).await)
}

pub(super) async fn remove(
    context: &Context,
    peer: Peer<'_>,
    mut args: Decoder,
    is_directory: bool,
) -> Result<Payload, Malformed> {
    let place = DirOpArgs::decode(&mut args)?;
    args.end()?;
    let target = match context.target(peer, &place.directory) {
        Ok(target) => target,
        Err(status) => return Ok(nothing_changed(status)),
    };
    let (share, caller, directory) = (target.share(), &target.caller, target.file);
    let changed = match place.check_removal(&target) {
        Err(error) => Err(error),
        Ok(()) if is_directory => share.remove_directory(caller, directory, &place.name).await,
        Ok(()) => share.remove(caller, directory, &place.name).await,
    };
    Ok(match changed {
        Ok(changed) => Payload::succeeded(&REMOVE3resok { dir_wcc: target.changed(&changed) }),
        Err(error) => target.change_failed(error).await,
    })
}

pub(super) async fn rename(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let (from, to) = (DirOpArgs::decode(&mut args)?, DirOpArgs::decode(&mut args)?);
    args.end()?;
    let nothing = || (wcc_data::default(), wcc_data::default());
    let targets = context.target(peer, &from.directory).and_then(|old| Ok((old, context.target(peer, &to.directory)?)));
    let (old, new) = match targets {
        Ok(targets) => targets,
        Err(status) => return Ok(Payload::failed(status, &PackedPair(nothing()))),
    };
    let renamed = match from.check_removal(&old).and_then(|()| to.check(&new)) {
        Err(error) => Err(error),
        Ok(()) if old.export.id != new.export.id => Err(FileError::CrossDevice),
        Ok(()) => old.share().rename(&old.caller, old.file, &from.name, new.file, &to.name).await,
    };
    Ok(match renamed {
        Ok((fromdir, todir)) => {
            let (fromdir_wcc, todir_wcc) = (old.changed(&fromdir), new.changed(&todir));
            Payload::succeeded(&RENAME3resok { fromdir_wcc, todir_wcc })
        }
        Err(error) => Payload::failed(status_of(error), &PackedPair((old.unchanged().await, new.unchanged().await))),
    })
}

/// No share has several names for one file.
pub(super) async fn link(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let (handle, place) = (args.handle()?, DirOpArgs::decode(&mut args)?);
    args.end()?;
    let targets = context.target(peer, &handle).and_then(|file| Ok((file, context.target(peer, &place.directory)?)));
    let (file, directory) = match targets {
        Ok(targets) => targets,
        Err(status) => return Ok(Payload::failed(status, &PackedPair((post_op_attr::None, wcc_data::default())))),
    };
    let refusal = check_change(&directory).err().unwrap_or(FileError::NotSupported);
    Ok(Payload::failed(status_of(refusal), &PackedPair((file.facts().await, directory.unchanged().await))))
}

/// Two values one after the other.
struct PackedPair<A, B>((A, B));

impl<A: Pack, B: Pack> Pack for PackedPair<A, B> {
    fn packed_size(&self) -> usize {
        self.0.0.packed_size() + self.0.1.packed_size()
    }

    fn pack(&self, out: &mut impl std::io::Write) -> nfs3_types::xdr_codec::Result<usize> {
        Ok(self.0.0.pack(out)? + self.0.1.pack(out)?)
    }
}

/// The results of CREATE, MKDIR and SYMLINK have one form.
async fn answer_created(target: &Target<'_>, created: FileResult<CreateResult>) -> Payload {
    match created {
        Ok(created) => {
            let handle = target.handle_of(created.attributes.file).to_vec();
            Payload::succeeded(&CREATE3resok {
                obj: Nfs3Option::Some(nfs_fh3 { data: Opaque::owned(handle) }),
                obj_attributes: target.attributes(Some(&created.attributes)),
                dir_wcc: target.changed(&created.directory),
            })
        }
        Err(error) => target.change_failed(error).await,
    }
}

fn nothing_changed(status: nfsstat3) -> Payload {
    Payload::failed(status, &wcc_data::default())
}

fn set_attributes(args: &mut Decoder) -> Result<SetAttributes, Malformed> {
    let wire: sattr3 = args.small()?;
    let accessed = match wire.atime {
        set_atime::DONT_CHANGE => None,
        set_atime::SET_TO_SERVER_TIME => Some(TimeUpdate::Now),
        set_atime::SET_TO_CLIENT_TIME(time) => Some(TimeUpdate::At(time.into())),
    };
    let modified = match wire.mtime {
        set_mtime::DONT_CHANGE => None,
        set_mtime::SET_TO_SERVER_TIME => Some(TimeUpdate::Now),
        set_mtime::SET_TO_CLIENT_TIME(time) => Some(TimeUpdate::At(time.into())),
    };
    let mode = option(wire.mode).map(|mode| mode & 0o7777);
    Ok(SetAttributes {
        mode,
        uid: option(wire.uid),
        gid: option(wire.gid),
        size: option(wire.size),
        accessed,
        modified,
    })
}

fn option<T: Pack + Unpack>(value: Nfs3Option<T>) -> Option<T> {
    match value {
        Nfs3Option::Some(value) => Some(value),
        Nfs3Option::None => None,
    }
}
