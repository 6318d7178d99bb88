//! File procedures: READ, WRITE, COMMIT, READLINK.

use bytes::Bytes;
use nfs3_types::nfs3::{COMMIT3resok, WRITE3resok, post_op_attr, stable_how, wcc_data};
use seqferry_share::{FileError, Stability};

use super::{MAX_TRANSFER, check_change, status_only};
use crate::context::{Context, Peer};
use crate::reply::Payload;
use crate::xdr::{Decoder, Malformed};

pub(super) async fn readlink(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let handle = args.handle()?;
    args.end()?;
    let target = match context.target(peer, &handle) {
        Ok(target) => target,
        Err(status) => return Ok(status_only(status)),
    };
    Ok(match target.share().read_link(&target.caller, target.file).await {
        Ok(path) => {
            let length = u32::try_from(path.len()).unwrap_or(u32::MAX);
            Payload::succeeded(&LinkResultHead { attributes: target.facts().await, length }).with_bytes(vec![path])
        }
        Err(error) => target.failed(error).await,
    })
}

pub(super) async fn read(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let (handle, offset, length) = (args.handle()?, args.long()?, args.number()?);
    args.end()?;
    let target = match context.target(peer, &handle) {
        Ok(target) => target,
        Err(status) => return Ok(status_only(status)),
    };
    Ok(match target.share().read(&target.caller, target.file, offset, length.min(MAX_TRANSFER)).await {
        Ok(data) => {
            let attributes = match &data.attributes {
                Some(attributes) => target.attributes(Some(attributes)),
                None => target.facts().await,
            };
            let count = u32::try_from(data.slices.iter().map(Bytes::len).sum::<usize>()).unwrap_or(u32::MAX);
            let head = ReadResultHead { attributes, count, is_end: data.is_end, length: count };
            Payload::succeeded(&head).with_bytes(data.slices)
        }
        Err(error) => target.failed(error).await,
    })
}

pub(super) async fn write(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let (handle, offset, count) = (args.handle()?, args.long()?, args.number()?);
    let stability = match args.number()? {
        0 => Stability::Unstable,
        1 => Stability::Data,
        2 => Stability::File,
        _ => return Err(Malformed),
    };
    let mut data = args.opaque(usize::MAX)?;
    args.end()?;
    if count as usize > data.len() {
        return Err(Malformed);
    }
    // A client that writes more than the stated maximum gets a short write, and sends the rest.
    data.truncate(count.min(MAX_TRANSFER) as usize);
    let target = match context.target(peer, &handle) {
        Ok(target) => target,
        Err(status) => return Ok(Payload::failed(status, &wcc_data::default())),
    };
    let end = offset.checked_add(data.len() as u64);
    let is_too_large = end.is_none_or(|end| end > target.share().limits().max_file_size);
    let written = match check_change(&target) {
        Err(error) => Err(error),
        Ok(()) if is_too_large => Err(FileError::TooLarge),
        Ok(()) => target.share().write(&target.caller, target.file, offset, data, stability).await,
    };
    Ok(match written {
        Ok(written) => Payload::succeeded(&WRITE3resok {
            file_wcc: target.changed(&written.file),
            count: written.length,
            committed: match written.stability {
                Stability::Unstable => stable_how::UNSTABLE,
                Stability::Data => stable_how::DATA_SYNC,
                Stability::File => stable_how::FILE_SYNC,
            },
            verf: context.verifier,
        }),
        Err(error) => target.change_failed(error).await,
    })
}

pub(super) async fn commit(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let (handle, _offset, _count) = (args.handle()?, args.long()?, args.number()?);
    args.end()?;
    let target = match context.target(peer, &handle) {
        Ok(target) => target,
        Err(status) => return Ok(Payload::failed(status, &wcc_data::default())),
    };
    let committed = match check_change(&target) {
        Err(error) => Err(error),
        Ok(()) => target.share().commit(&target.caller, target.file).await,
    };
    Ok(match committed {
        Ok(changed) => Payload::succeeded(&COMMIT3resok { file_wcc: target.changed(&changed), verf: context.verifier }),
        Err(error) => target.change_failed(error).await,
    })
}

/// The result of a read up to its bytes.
#[derive(Debug, nfs3_types::xdr_codec::XdrCodec)]
struct ReadResultHead {
    attributes: post_op_attr,
    count: u32,
    is_end: bool,
    length: u32,
}

/// The target of a link up to its bytes.
#[derive(Debug, nfs3_types::xdr_codec::XdrCodec)]
struct LinkResultHead {
    attributes: post_op_attr,
    length: u32,
}
