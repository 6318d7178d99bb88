//! The MOUNT protocol: from the path of an export to the handle of a directory.

use bytes::Bytes;
use nfs3_types::mount::{
    MNTPATHLEN, MOUNT_PROGRAM, dirpath, export_node, exports, fhandle3, mountbody, mountlist, mountres3_ok, mountstat3,
    name as host_name,
};
use nfs3_types::rpc::auth_flavor;
use nfs3_types::xdr_codec::{List, Opaque, Void};
use seqferry_share::{FileError, FileKind};

use crate::context::{Context, Peer};
use crate::reply::{Payload, packed};
use crate::xdr::{Decoder, Malformed};

/// Run a procedure.
pub(crate) async fn run(
    context: &Context,
    peer: Peer<'_>,
    procedure: MOUNT_PROGRAM,
    arguments: Bytes,
) -> Result<Payload, Malformed> {
    let mut args = Decoder::new(arguments);
    match procedure {
        MOUNT_PROGRAM::MOUNTPROC3_NULL => Ok(Payload::plain(&Void)),
        MOUNT_PROGRAM::MOUNTPROC3_MNT => {
            let path = args.opaque(MNTPATHLEN)?;
            args.end()?;
            Ok(match mount(context, peer, &path).await {
                Ok(handle) => mounted(handle),
                Err(status) => Payload::plain(&status),
            })
        }
        MOUNT_PROGRAM::MOUNTPROC3_DUMP => {
            let host = peer.address.to_canonical().to_string();
            let mounts = context.mounts.of(peer.address);
            let bodies = mounts.iter().map(|path| mountbody {
                ml_hostname: host_name(Opaque::borrowed(host.as_bytes())),
                ml_directory: dirpath(Opaque::borrowed(path.as_bytes())),
            });
            let list: mountlist<'_, '_> = List(bodies.collect());
            Ok(Payload::plain(&list))
        }
        MOUNT_PROGRAM::MOUNTPROC3_UMNT => {
            let path = args.opaque(MNTPATHLEN)?;
            context.mounts.remove(peer.address, Some(&String::from_utf8_lossy(&path)));
            Ok(Payload::plain(&Void))
        }
        MOUNT_PROGRAM::MOUNTPROC3_UMNTALL => {
            context.mounts.remove(peer.address, None);
            Ok(Payload::plain(&Void))
        }
        MOUNT_PROGRAM::MOUNTPROC3_EXPORT => Ok(exported(context, peer)),
    }
}

/// The handle of a directory, by its path: the name of an export, and directories below it.
async fn mount(context: &Context, peer: Peer<'_>, path: &[u8]) -> Result<Vec<u8>, mountstat3> {
    let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let first = names.next().ok_or(mountstat3::MNT3ERR_NOENT)?;
    let export = context.exports.iter().find(|export| export.name.as_bytes() == first);
    let export = export.ok_or(mountstat3::MNT3ERR_NOENT)?;
    if !export.clients.allows(peer.address) {
        tracing::warn!("{} may not mount /{}: it is on no list of its clients", peer.address, export.name);
        return Err(mountstat3::MNT3ERR_ACCES);
    }
    let (share, caller) = (&export.share.0, export.users.caller(peer.address, peer.credentials));
    let mut found = share.attributes(&caller, share.root()).await.map_err(status)?;
    for name in names {
        if matches!(name, b"." | b"..") {
            return Err(mountstat3::MNT3ERR_INVAL);
        }
        found = share.lookup(&caller, found.file, name).await.map_err(status)?;
    }
    if found.kind != FileKind::Directory {
        return Err(mountstat3::MNT3ERR_NOTDIR);
    }
    context.mounts.add(peer.address, String::from_utf8_lossy(path).into_owned());
    Ok(context.handle(export, found.file).to_vec())
}

fn mounted(handle: Vec<u8>) -> Payload {
    let auth_flavors = vec![auth_flavor::AUTH_UNIX as u32];
    let result = mountres3_ok { fhandle: fhandle3(Opaque::owned(handle)), auth_flavors };
    Payload::plain(&mountstat3::MNT3_OK).with_bytes(vec![Bytes::from(packed(&result))])
}

/// The exports that this client may mount, with their clients.
fn exported(context: &Context, peer: Peer<'_>) -> Payload {
    let visible = context.exports.iter().filter(|export| export.clients.allows(peer.address));
    let nodes = visible.map(|export| export_node {
        ex_dir: dirpath(Opaque::owned(format!("/{}", export.name).into_bytes())),
        ex_groups: List(export.clients.entries().map(|entry| host_name(Opaque::owned(entry.into_bytes()))).collect()),
    });
    let list: exports<'_, '_> = List(nodes.collect());
    Payload::plain(&list)
}

const fn status(error: FileError) -> mountstat3 {
    match error {
        FileError::NotPermitted => mountstat3::MNT3ERR_PERM,
        FileError::NotFound | FileError::Stale => mountstat3::MNT3ERR_NOENT,
        FileError::AccessDenied => mountstat3::MNT3ERR_ACCES,
        FileError::NotADirectory => mountstat3::MNT3ERR_NOTDIR,
        FileError::Invalid | FileError::IsADirectory | FileError::BadCookie => mountstat3::MNT3ERR_INVAL,
        FileError::NameTooLong => mountstat3::MNT3ERR_NAMETOOLONG,
        FileError::NotSupported => mountstat3::MNT3ERR_NOTSUPP,
        FileError::Io
        | FileError::Exists
        | FileError::CrossDevice
        | FileError::TooLarge
        | FileError::NoSpace
        | FileError::ReadOnly
        | FileError::NotEmpty
        | FileError::QuotaExceeded
        | FileError::NotSynchronized => mountstat3::MNT3ERR_IO,
        FileError::TryLater => mountstat3::MNT3ERR_SERVERFAULT,
    }
}
