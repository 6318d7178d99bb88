//! Directory procedures: LOOKUP, READDIR, READDIRPLUS.

use nfs3_types::nfs3::{
    LOOKUP3resok, Nfs3Option, READDIR3resok, READDIRPLUS3resok, cookieverf3, dirlist3, dirlistplus3, entry3,
    entryplus3, filename3, nfs_fh3, nfsstat3,
};
use nfs3_types::xdr_codec::{List, Opaque, Pack};
use seqferry_share::{DirectoryEntry, EntryDetail, Result as FileResult};

use super::{check_name, status_only};
use crate::context::{Context, Peer, Target};
use crate::reply::Payload;
use crate::xdr::{Decoder, Malformed};

/// Bytes of one listing, whatever a client asks for: some hundred names with their attributes.
pub(super) const MAX_LISTING: u32 = 128 << 10;
/// Entries that are asked of a share at a time.
const PAGE: usize = 1024;
/// Bytes of an entry with a short name, and of one with its attributes and handle.
const SMALLEST_ENTRY: usize = 24;
const SMALLEST_WITH_FACTS: usize = 144;

pub(super) async fn lookup(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let (handle, name) = (args.handle()?, args.name()?);
    args.end()?;
    let target = match context.target(peer, &handle) {
        Ok(target) => target,
        Err(status) => return Ok(status_only(status)),
    };
    let found = match check_name(&name, target.share().limits()) {
        Ok(()) => target.share().lookup(&target.caller, target.file, &name).await,
        Err(error) => Err(error),
    };
    Ok(match found {
        Ok(attributes) => Payload::succeeded(&LOOKUP3resok {
            object: nfs_fh3 { data: Opaque::owned(target.handle_of(attributes.file).to_vec()) },
            obj_attributes: target.attributes(Some(&attributes)),
            dir_attributes: target.facts().await,
        }),
        Err(error) => target.failed(error).await,
    })
}

pub(super) async fn readdir(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let (handle, cookie) = (args.handle()?, args.long()?);
    let (_verifier, count) = (args.fixed::<8>()?, args.number()?);
    args.end()?;
    let target = match context.target(peer, &handle) {
        Ok(target) => target,
        Err(status) => return Ok(status_only(status)),
    };
    let dir_attributes = target.facts().await;
    let empty = READDIR3resok { dir_attributes, cookieverf: cookieverf3::default(), reply: dirlist3::default() };
    let mut space_left = ReplySpace::new(count, empty.packed_size(), u32::MAX);
    let wanted = (EntryDetail::Names, SMALLEST_ENTRY);
    let listed = fill(&target, cookie, &mut space_left, wanted, |entry| 4 + plain(entry).packed_size()).await;
    Ok(match listed {
        Ok(Some((entries, eof))) => {
            let entries = List(entries.iter().map(plain).collect());
            Payload::succeeded(&READDIR3resok { reply: dirlist3 { entries, eof }, ..empty })
        }
        Ok(None) => Payload::failed(nfsstat3::NFS3ERR_TOOSMALL, &empty.dir_attributes),
        Err(error) => target.failed(error).await,
    })
}

pub(super) async fn readdirplus(context: &Context, peer: Peer<'_>, mut args: Decoder) -> Result<Payload, Malformed> {
    let (handle, cookie) = (args.handle()?, args.long()?);
    let (_verifier, names, count) = (args.fixed::<8>()?, args.number()?, args.number()?);
    args.end()?;
    let target = match context.target(peer, &handle) {
        Ok(target) => target,
        Err(status) => return Ok(status_only(status)),
    };
    let reply = dirlistplus3 { entries: List(Vec::new()), eof: false };
    let dir_attributes = target.facts().await;
    let empty = READDIRPLUS3resok { dir_attributes, cookieverf: cookieverf3::default(), reply };
    let mut space_left = ReplySpace::new(count, empty.packed_size(), names);
    let wanted = (EntryDetail::All, SMALLEST_WITH_FACTS);
    let listed =
        fill(&target, cookie, &mut space_left, wanted, |entry| 4 + with_facts(&target, entry).packed_size()).await;
    Ok(match listed {
        Ok(Some((entries, eof))) => {
            let entries = List(entries.iter().map(|entry| with_facts(&target, entry)).collect());
            Payload::succeeded(&READDIRPLUS3resok { reply: dirlistplus3 { entries, eof }, ..empty })
        }
        Ok(None) => Payload::failed(nfsstat3::NFS3ERR_TOOSMALL, &empty.dir_attributes),
        Err(error) => target.failed(error).await,
    })
}

/// Bytes that are left in a listing.
struct ReplySpace {
    /// Bytes of the whole reply.
    left: usize,
    /// Bytes of names and numbers, which a client bounds apart from their attributes.
    names: usize,
}

impl ReplySpace {
    fn new(count: u32, fixed: usize, names: u32) -> Self {
        let left = (count.min(MAX_LISTING) as usize).saturating_sub(fixed);
        // Some clients leave the bound of names at zero: the bound of the reply counts then.
        Self { left, names: if names == 0 { usize::MAX } else { names as usize } }
    }

    /// Take the room of an entry, if there is enough. The bound of names never keeps out the first one.
    fn take(&mut self, size: usize, names: usize, is_first: bool) -> bool {
        if size > self.left || (names > self.names && !is_first) {
            return false;
        }
        self.left -= size;
        self.names = self.names.saturating_sub(names);
        true
    }
}

/// The entries after a position that there is space for, and whether the directory ends with them. None: there is no
/// space for a single one.
async fn fill(
    target: &Target<'_>,
    mut cookie: u64,
    space_left: &mut ReplySpace,
    (facts, smallest): (EntryDetail, usize),
    size: impl Fn(&DirectoryEntry) -> usize,
) -> FileResult<Option<(Vec<DirectoryEntry>, bool)>> {
    let mut entries: Vec<DirectoryEntry> = Vec::new();
    loop {
        let most = (space_left.left / smallest + 1).min(PAGE);
        let page = target.share().read_directory(&target.caller, target.file, cookie, most, facts).await?;
        let is_last = page.is_end || page.entries.is_empty();
        for entry in page.entries {
            let names = plain(&entry).packed_size();
            if !space_left.take(size(&entry), names, entries.is_empty()) {
                return Ok(if entries.is_empty() { None } else { Some((entries, false)) });
            }
            cookie = entry.cookie;
            entries.push(entry);
        }
        if is_last {
            return Ok(Some((entries, true)));
        }
    }
}

fn plain(entry: &DirectoryEntry) -> entry3<'_> {
    let name = filename3(Opaque::borrowed(&entry.name));
    entry3 { fileid: entry.attributes.file.number, name, cookie: entry.cookie }
}

fn with_facts<'a>(target: &Target<'_>, entry: &'a DirectoryEntry) -> entryplus3<'a> {
    let entry3 { fileid, name, cookie } = plain(entry);
    let handle = nfs_fh3 { data: Opaque::owned(target.handle_of(entry.attributes.file).to_vec()) };
    // A client asks for what is not there.
    let name_attributes = target.attributes(Some(&entry.attributes).filter(|_| entry.is_known));
    entryplus3 { fileid, name, cookie, name_attributes, name_handle: Nfs3Option::Some(handle) }
}
