//! The procedures of `NFSv3`: arguments in, one call of the share, facts out.

mod changes;
mod directories;
mod facts;
mod files;

use bytes::Bytes;
use nfs3_types::nfs3::{NFS_PROGRAM, nfsstat3};
use seqferry_share::{FileError, FileLimits, Result as FileResult};

use crate::call::Call;
use crate::context::{Context, Peer, Target};
use crate::reply::Payload;
use crate::reply_cache::CachedCallKind;
use crate::xdr::{Decoder, Malformed};

/// Largest read and write: larger ones are no faster, and each occupies memory.
pub(crate) const MAX_TRANSFER: u32 = 1 << 20;
/// Bytes of a reply beside those of a file or directory.
pub(crate) const OVERHEAD: u32 = 4 << 10;

/// The kind under which the reply to a procedure is kept. None: it may run twice.
pub(crate) const fn cached_kind(procedure: NFS_PROGRAM) -> Option<CachedCallKind> {
    match procedure {
        NFS_PROGRAM::NFSPROC3_WRITE => Some(CachedCallKind::Writes),
        NFS_PROGRAM::NFSPROC3_SETATTR
        | NFS_PROGRAM::NFSPROC3_CREATE
        | NFS_PROGRAM::NFSPROC3_MKDIR
        | NFS_PROGRAM::NFSPROC3_SYMLINK
        | NFS_PROGRAM::NFSPROC3_MKNOD
        | NFS_PROGRAM::NFSPROC3_REMOVE
        | NFS_PROGRAM::NFSPROC3_RMDIR
        | NFS_PROGRAM::NFSPROC3_RENAME
        | NFS_PROGRAM::NFSPROC3_LINK => Some(CachedCallKind::Changes),
        NFS_PROGRAM::NFSPROC3_NULL
        | NFS_PROGRAM::NFSPROC3_GETATTR
        | NFS_PROGRAM::NFSPROC3_LOOKUP
        | NFS_PROGRAM::NFSPROC3_ACCESS
        | NFS_PROGRAM::NFSPROC3_READLINK
        | NFS_PROGRAM::NFSPROC3_READ
        | NFS_PROGRAM::NFSPROC3_READDIR
        | NFS_PROGRAM::NFSPROC3_READDIRPLUS
        | NFS_PROGRAM::NFSPROC3_FSSTAT
        | NFS_PROGRAM::NFSPROC3_FSINFO
        | NFS_PROGRAM::NFSPROC3_PATHCONF
        | NFS_PROGRAM::NFSPROC3_COMMIT => None,
    }
}

/// Bytes that a call and its reply occupy at most. Reads are counted by what they ask for.
pub(crate) fn footprint(call: &Call) -> u32 {
    let mut arguments = Decoder::new(call.arguments.clone());
    let reply = match NFS_PROGRAM::try_from(call.procedure) {
        Ok(NFS_PROGRAM::NFSPROC3_READ) => read_length(&mut arguments).unwrap_or(0),
        Ok(NFS_PROGRAM::NFSPROC3_READDIR | NFS_PROGRAM::NFSPROC3_READDIRPLUS) => directories::MAX_LISTING,
        _ => 0,
    };
    u32::try_from(call.record.len())
        .unwrap_or(u32::MAX)
        .saturating_add(reply.min(MAX_TRANSFER))
        .saturating_add(OVERHEAD)
}

fn read_length(arguments: &mut Decoder) -> Result<u32, Malformed> {
    let _target = (arguments.handle()?, arguments.long()?);
    arguments.number()
}

/// Run a procedure.
pub(crate) async fn run(
    context: &Context,
    peer: Peer<'_>,
    procedure: NFS_PROGRAM,
    arguments: Bytes,
) -> Result<Payload, Malformed> {
    let arguments = Decoder::new(arguments);
    match procedure {
        NFS_PROGRAM::NFSPROC3_NULL => Ok(Payload::plain(&nfs3_types::xdr_codec::Void)),
        NFS_PROGRAM::NFSPROC3_GETATTR => facts::getattr(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_SETATTR => changes::setattr(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_LOOKUP => directories::lookup(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_ACCESS => facts::access(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_READLINK => files::readlink(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_READ => files::read(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_WRITE => files::write(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_CREATE => changes::create(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_MKDIR => changes::mkdir(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_SYMLINK => changes::symlink(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_MKNOD => changes::mknod(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_REMOVE => changes::remove(context, peer, arguments, false).await,
        NFS_PROGRAM::NFSPROC3_RMDIR => changes::remove(context, peer, arguments, true).await,
        NFS_PROGRAM::NFSPROC3_RENAME => changes::rename(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_LINK => changes::link(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_READDIR => directories::readdir(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_READDIRPLUS => directories::readdirplus(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_FSSTAT => facts::fsstat(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_FSINFO => facts::fsinfo(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_PATHCONF => facts::pathconf(context, peer, arguments).await,
        NFS_PROGRAM::NFSPROC3_COMMIT => files::commit(context, peer, arguments).await,
    }
}

/// Refuses what no name can be. `.` and `..` may be looked up.
fn check_name(name: &[u8], limits: FileLimits) -> FileResult<()> {
    if name.len() > limits.max_name as usize {
        return Err(FileError::NameTooLong);
    }
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return Err(FileError::Invalid);
    }
    Ok(())
}

/// A read-only share says so, whatever the arguments are.
fn check_change(target: &Target<'_>) -> FileResult<()> {
    if target.share().is_read_only() { Err(FileError::ReadOnly) } else { Ok(()) }
}

/// Status of a handle that no file was found for, with nothing known about a file.
fn status_only(status: nfsstat3) -> Payload {
    Payload::failed(status, &nfs3_types::nfs3::post_op_attr::None)
}
