//! Attributes of files and shares: GETATTR, ACCESS, FSSTAT, FSINFO, PATHCONF.

use nfs3_types::nfs3::{
    ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ, ACCESS3resok,
    FSF3_CANSETTIME, FSF3_HOMOGENEOUS, FSF3_SYMLINK, FSINFO3resok, FSSTAT3resok, GETATTR3resok, PATHCONF3resok,
    nfstime3,
};
use nfs3_types::xdr_codec::Void;
use seqferry_share::Access;

use super::{MAX_TRANSFER, status_only};
use crate::context::{Context, Peer};
use crate::error::status_of;
use crate::reply::Payload;
use crate::xdr::{Decoder, Malformed};

/// Multiple of bytes in which clients should read and write: a page.
const PAGE: u32 = 4096;
/// Bytes in which clients should list directories.
const LISTING: u32 = 64 << 10;
/// Largest number of bytes or files that clients with signed numbers can hold.
const MOST: u64 = i64::MAX as u64;

/// Rights as bits of the protocol.
const RIGHTS: [(Access, u32); 6] = [
    (Access::READ, ACCESS3_READ),
    (Access::LOOKUP, ACCESS3_LOOKUP),
    (Access::MODIFY, ACCESS3_MODIFY),
    (Access::EXTEND, ACCESS3_EXTEND),
    (Access::DELETE, ACCESS3_DELETE),
    (Access::EXECUTE, ACCESS3_EXECUTE),
];

pub(super) async fn getattr(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let handle = args.handle()?;
    args.end()?;
    let target = match context.target(peer, &handle) {
        Ok(target) => target,
        Err(status) => return Ok(Payload::failed(status, &Void)),
    };
    Ok(match target.share().attributes(&target.caller, target.file).await {
        Ok(attributes) => Payload::succeeded(&GETATTR3resok { obj_attributes: target.fattr(&attributes) }),
        Err(error) => Payload::failed(status_of(error), &Void),
    })
}

pub(super) async fn access(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let (handle, wanted) = (args.handle()?, args.number()?);
    args.end()?;
    let target = match context.target(peer, &handle) {
        Ok(target) => target,
        Err(status) => return Ok(status_only(status)),
    };
    Ok(match target.share().access(&target.caller, target.file).await {
        Ok((granted, attributes)) => Payload::succeeded(&ACCESS3resok {
            obj_attributes: target.attributes(Some(&attributes)),
            access: bits(granted) & wanted,
        }),
        Err(error) => target.failed(error).await,
    })
}

fn bits(granted: Access) -> u32 {
    RIGHTS.iter().filter(|(right, _)| granted.includes(*right)).map(|(_, bit)| bit).sum()
}

pub(super) async fn fsstat(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let handle = args.handle()?;
    args.end()?;
    let target = match context.target(peer, &handle) {
        Ok(target) => target,
        Err(status) => return Ok(status_only(status)),
    };
    // The share is asked about the file as well: a handle of a file that is gone is stale here, too.
    let attributes = match target.share().attributes(&target.caller, target.file).await {
        Ok(attributes) => attributes,
        Err(error) => return Ok(target.failed(error).await),
    };
    Ok(match target.share().space(&target.caller).await {
        Ok(space) => Payload::succeeded(&FSSTAT3resok {
            obj_attributes: target.attributes(Some(&attributes)),
            tbytes: space.total_bytes.min(MOST),
            fbytes: space.free_bytes.min(MOST),
            abytes: space.free_bytes.min(MOST),
            tfiles: space.total_files.min(MOST),
            ffiles: space.free_files.min(MOST),
            afiles: space.free_files.min(MOST),
            invarsec: 0,
        }),
        Err(error) => target.failed(error).await,
    })
}

pub(super) async fn fsinfo(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let handle = args.handle()?;
    args.end()?;
    let target = match context.target(peer, &handle) {
        Ok(target) => target,
        Err(status) => return Ok(status_only(status)),
    };
    let times = if target.share().is_read_only() { 0 } else { FSF3_CANSETTIME };
    Ok(match target.share().attributes(&target.caller, target.file).await {
        Ok(attributes) => Payload::succeeded(&FSINFO3resok {
            obj_attributes: target.attributes(Some(&attributes)),
            rtmax: MAX_TRANSFER,
            rtpref: MAX_TRANSFER,
            rtmult: PAGE,
            wtmax: MAX_TRANSFER,
            wtpref: MAX_TRANSFER,
            wtmult: PAGE,
            dtpref: LISTING,
            maxfilesize: target.share().limits().max_file_size.min(MOST),
            time_delta: nfstime3 { seconds: 0, nseconds: 1 },
            properties: FSF3_SYMLINK | FSF3_HOMOGENEOUS | times,
        }),
        Err(error) => target.failed(error).await,
    })
}

pub(super) async fn pathconf(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let handle = args.handle()?;
    args.end()?;
    let target = match context.target(peer, &handle) {
        Ok(target) => target,
        Err(status) => return Ok(status_only(status)),
    };
    Ok(match target.share().attributes(&target.caller, target.file).await {
        Ok(attributes) => Payload::succeeded(&PATHCONF3resok {
            obj_attributes: target.attributes(Some(&attributes)),
            linkmax: 1,
            name_max: target.share().limits().max_name,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        }),
        Err(error) => target.failed(error).await,
    })
}
