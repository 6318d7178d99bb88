//! State that all connections share.

use std::net::IpAddr;
use std::sync::Arc;

use nfs3_types::nfs3::{
    Nfs3Option, fattr3, ftype3, nfsstat3, nfstime3, post_op_attr, specdata3, wcc_attr, wcc_data, writeverf3,
};
use seqferry_share::{Attributes, Caller, ChangeResult, ChangeStamp, FileError, FileId, FileKind, Share};

use crate::call::Credentials;
use crate::error::status_of;
use crate::export::ServedExport;
use crate::handle::{HANDLE, HandleError};
use crate::key::HandleKey;
use crate::mount_table::MountTable;
use crate::port_map::PortMap;
use crate::reply::Payload;
use crate::reply_cache::ReplyCache;

/// Exports, key, and what is remembered of clients.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) key: HandleKey,
    pub(crate) exports: Vec<ServedExport>,
    /// Tells clients that the server was started again: bytes that were not committed may be lost.
    pub(crate) verifier: writeverf3,
    pub(crate) replies: Arc<ReplyCache>,
    pub(crate) mounts: MountTable,
    /// Programs that clients find by our port mapper. None: there is none.
    pub(crate) port_map: Option<PortMap>,
}

/// The client of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer<'a> {
    pub(crate) address: IpAddr,
    pub(crate) credentials: &'a Credentials,
}

/// The file of a handle, and the user that wants it.
pub(crate) struct Target<'a> {
    context: &'a Context,
    pub(crate) export: &'a ServedExport,
    pub(crate) caller: Caller,
    pub(crate) file: FileId,
}

impl Context {
    /// True for an address that may use one of the exports.
    pub(crate) fn allows(&self, address: IpAddr) -> bool {
        self.exports.iter().any(|export| export.clients.allows(address))
    }

    /// The file of a handle, if this client may use it. A handle is no permission: it may have been overheard.
    pub(crate) fn target(&self, peer: Peer<'_>, handle: &[u8]) -> Result<Target<'_>, nfsstat3> {
        let (export, file) = self.key.read_handle(handle).map_err(|error| match error {
            HandleError::Malformed => nfsstat3::NFS3ERR_BADHANDLE,
            HandleError::Foreign => nfsstat3::NFS3ERR_STALE,
        })?;
        let export = self.exports.iter().find(|known| known.id == export).ok_or(nfsstat3::NFS3ERR_STALE)?;
        if !export.clients.allows(peer.address) {
            return Err(nfsstat3::NFS3ERR_ACCES);
        }
        let caller = export.users.caller(peer.address, peer.credentials);
        Ok(Target { context: self, export, caller, file })
    }

    /// The handle of a file.
    pub(crate) fn handle(&self, export: &ServedExport, file: FileId) -> [u8; HANDLE] {
        self.key.handle(export.id, file)
    }
}

impl Target<'_> {
    pub(crate) fn share(&self) -> &dyn Share {
        &*self.export.share.0
    }

    /// The handle of a file of the same export.
    pub(crate) fn handle_of(&self, file: FileId) -> [u8; HANDLE] {
        self.context.handle(self.export, file)
    }

    /// Attributes of the file as it is now, if they can be had.
    pub(crate) async fn facts(&self) -> post_op_attr {
        let attributes = self.share().attributes(&self.caller, self.file).await.ok();
        attributes.map_or(Nfs3Option::None, |attributes| Nfs3Option::Some(self.fattr(&attributes)))
    }

    /// A failure with the attributes of the file.
    pub(crate) async fn failed(&self, error: FileError) -> Payload {
        Payload::failed(status_of(error), &self.facts().await)
    }

    /// A failed change with the attributes of the file or directory.
    pub(crate) async fn change_failed(&self, error: FileError) -> Payload {
        Payload::failed(status_of(error), &self.unchanged().await)
    }

    /// Attributes of a file that a failed call may have left as it was.
    pub(crate) async fn unchanged(&self) -> wcc_data {
        wcc_data { before: Nfs3Option::None, after: self.facts().await }
    }

    /// Facts around a change.
    pub(crate) fn changed(&self, changed: &ChangeResult) -> wcc_data {
        let before = changed.before.as_ref().map_or(Nfs3Option::None, |before| Nfs3Option::Some(summary(before)));
        wcc_data { before, after: self.attributes(changed.after.as_ref()) }
    }

    pub(crate) fn attributes(&self, attributes: Option<&Attributes>) -> post_op_attr {
        attributes.map_or(Nfs3Option::None, |attributes| Nfs3Option::Some(self.fattr(attributes)))
    }

    pub(crate) fn fattr(&self, attributes: &Attributes) -> fattr3 {
        fattr3 {
            type_: match attributes.kind {
                FileKind::File => ftype3::NF3REG,
                FileKind::Directory => ftype3::NF3DIR,
                FileKind::Symlink => ftype3::NF3LNK,
            },
            mode: attributes.mode & 0o7777,
            nlink: attributes.links,
            uid: attributes.uid,
            gid: attributes.gid,
            size: attributes.size,
            used: attributes.used,
            rdev: specdata3::default(),
            fsid: self.export.id.0,
            fileid: attributes.file.number,
            atime: time(attributes.accessed),
            mtime: time(attributes.modified),
            ctime: time(attributes.changed),
        }
    }
}

fn summary(summary: &ChangeStamp) -> wcc_attr {
    wcc_attr { size: summary.size, mtime: time(summary.modified), ctime: time(summary.changed) }
}

/// A time of the protocol; earlier ones than 1970 become 1970.
fn time(time: std::time::SystemTime) -> nfstime3 {
    nfstime3::try_from(time).unwrap_or_default()
}
