//! Records of the journal: changes of the overlay as bytes. A record holds the changes of one call: all or none.

use std::net::IpAddr;

use bytes::Bytes;
use seqferry_share::FileId;

use super::extents::Extents;
use super::node::{BaseObject, FileData, Node, NodeContent};
use super::rename::FolderRename;
use super::upload_outcome::FileWriter;

/// Form of records that this program writes.
const FORMAT: u8 = 6;
/// Earliest form that it reads. 2: files without their writers, and no outcomes; 3: no attributes of files; 4: writes
/// without a token; 5: no parts of growing files, and no renames of folders.
const EARLIEST_FORMAT: u8 = 2;

/// One change of the overlay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// The share that the journal belongs to.
    Share(String),
    /// Number of the next file that is made.
    Next(u64),
    /// A file at its place, with all its attributes.
    Put(Box<Node>),
    /// A file that is no more.
    Remove(u64),
    /// A name of the bucket that does not show.
    Hide { parent: u64, name: Box<str> },
    /// An object or folder marker of the bucket to be removed, and its version.
    AddRemoval { path: Box<str>, etag: Box<str> },
    /// A name of the bucket that shows again.
    Show { parent: u64, name: Box<str> },
    /// An object or folder marker to be removed has gone, or has changed meanwhile.
    EndRemoval { path: Box<str> },
    /// A file is about to be written to the bucket, or its upload in parts is open.
    BeginUpload(OpenUpload),
    /// Nothing of a file is being written to the bucket.
    EndUpload(u64),
    /// Name of the journal.
    Journal(Box<str>),
    /// An upload has ended, at a time in nanoseconds since 1970: one line of JSON. `rename`: of a folder that was renamed
    /// then.
    UploadOutcome { at: u64, rename: Option<u64>, line: Box<str> },
    /// The first of the outcomes, of a rename or of none, are in the file of a batch.
    Batched { batch: u64, rename: Option<u64>, outcomes: u64 },
    /// An extended attribute of a file. No value: it is removed.
    Attribute { number: u64, name: Box<[u8]>, value: Option<Bytes> },
    /// A file has no extended attributes any more.
    NoAttributes(u64),
    /// Parts of a file are uploaded while it grows.
    Grow(GrowingUpload),
    /// Nothing of a growing file is in the bucket, apart from what is to be removed.
    EndGrowing(u64),
    /// A folder was renamed, or more of its files are known.
    Rename(FolderRename),
    /// All that a renamed folder holds is at its new keys, and on record as far as this machine knows.
    EndRename(u64),
}

/// Upload of the parts of a file that is still written, to a key of its own: the key and the metadata of an upload are
/// those with which it began. The object that the parts become is copied to the path of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrowingUpload {
    pub(crate) number: u64,
    /// The path that the parts go to, which no other write has.
    pub(crate) path: Box<str>,
    /// The service's id of the upload. Empty: none is open.
    pub(crate) upload_id: Box<str>,
    pub(crate) part_size: u64,
    /// Time of its announcement, in nanoseconds since 1970.
    pub(crate) since: u64,
    /// The object that the parts have become.
    pub(crate) object: Option<GrownObject>,
}

/// The bytes of a generation of a file, at the path of its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrownObject {
    /// The generation.
    pub(crate) changed: u64,
    pub(crate) etag: Box<str>,
    /// Not stored. Bytes that were not acknowledged may be on the disk since a process before.
    pub(crate) is_of_this_process: bool,
}

/// A write to the bucket that may have been made: its outcome is not in the journal yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenUpload {
    /// The file, and its `changed` then.
    pub(crate) number: u64,
    pub(crate) changed: u64,
    /// The path that it is written to; that of a folder marker ends in a slash.
    pub(crate) path: Box<str>,
    /// The time of the file and its bytes. They are statements of a client, and identify no write.
    pub(crate) modified: u64,
    pub(crate) size: u64,
    /// The service's id of the upload. Empty: none is open.
    pub(crate) upload_id: Box<str>,
    pub(crate) part_size: u64,
    /// Random text of this generation of the file, which no other write has. Empty: an earlier version of this program
    /// has announced the write.
    pub(crate) token: Box<str>,
    /// This process has announced it. False when the journal was read: bytes that were never acknowledged may have been
    /// written over the file since. No record has it.
    pub(crate) is_of_this_process: bool,
}

pub(crate) fn encode(changes: &[Change]) -> Vec<u8> {
    let mut out = vec![FORMAT];
    for change in changes {
        match change {
            Change::Share(identity) => text(&mut out, 1, identity),
            Change::Next(number) => long(&mut out, 2, *number),
            Change::Put(node) => put(&mut out, node),
            Change::Remove(number) => long(&mut out, 4, *number),
            Change::Hide { parent, name } => {
                long(&mut out, 5, *parent);
                bytes(&mut out, name.as_bytes());
            }
            Change::AddRemoval { path, etag } => {
                text(&mut out, 6, path);
                bytes(&mut out, etag.as_bytes());
            }
            Change::Show { parent, name } => {
                long(&mut out, 7, *parent);
                bytes(&mut out, name.as_bytes());
            }
            Change::EndRemoval { path } => text(&mut out, 8, path),
            Change::BeginUpload(upload) => {
                long(&mut out, 15, upload.number);
                out.extend(upload.changed.to_le_bytes());
                bytes(&mut out, upload.path.as_bytes());
                bytes(&mut out, upload.upload_id.as_bytes());
                for number in [upload.modified, upload.size, upload.part_size] {
                    out.extend(number.to_le_bytes());
                }
                bytes(&mut out, upload.token.as_bytes());
            }
            Change::EndUpload(number) => long(&mut out, 10, *number),
            Change::Journal(name) => text(&mut out, 12, name),
            Change::UploadOutcome { at, rename, line } => {
                long(&mut out, if rename.is_some() { 26 } else { 13 }, *at);
                out.extend(rename.iter().flat_map(|rename| rename.to_le_bytes()));
                bytes(&mut out, line.as_bytes());
            }
            Change::Batched { batch, rename, outcomes } => {
                long(&mut out, if rename.is_some() { 27 } else { 14 }, *batch);
                out.extend(rename.iter().flat_map(|rename| rename.to_le_bytes()));
                out.extend(outcomes.to_le_bytes());
            }
            Change::Attribute { number, name, value } => {
                long(&mut out, 20, *number);
                bytes(&mut out, name);
                out.push(u8::from(value.is_some()));
                bytes(&mut out, value.as_deref().unwrap_or_default());
            }
            Change::NoAttributes(number) => long(&mut out, 21, *number),
            Change::Grow(growing) => {
                long(&mut out, 22, growing.number);
                bytes(&mut out, growing.path.as_bytes());
                bytes(&mut out, growing.upload_id.as_bytes());
                for number in [growing.part_size, growing.since] {
                    out.extend(number.to_le_bytes());
                }
                out.push(u8::from(growing.object.is_some()));
                if let Some(object) = &growing.object {
                    out.extend(object.changed.to_le_bytes());
                    bytes(&mut out, object.etag.as_bytes());
                }
            }
            Change::EndGrowing(number) => long(&mut out, 23, *number),
            Change::Rename(FolderRename { since, number, from, files, bytes: size }) => {
                long(&mut out, 24, *since);
                for number in [number, files, size] {
                    out.extend(number.to_le_bytes());
                }
                bytes(&mut out, from.as_bytes());
            }
            Change::EndRename(since) => long(&mut out, 25, *since),
        }
    }
    out
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // Names, links and paths: far below four gigabytes.
    out.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn text(out: &mut Vec<u8>, tag: u8, value: &str) {
    out.push(tag);
    bytes(out, value.as_bytes());
}

fn long(out: &mut Vec<u8>, tag: u8, value: u64) {
    out.push(tag);
    out.extend(value.to_le_bytes());
}

fn put(out: &mut Vec<u8>, node: &Node) {
    long(out, 11, node.file.number);
    out.extend(node.file.generation.to_le_bytes());
    out.extend(node.parent.to_le_bytes());
    bytes(out, node.name.as_bytes());
    for number in [node.mode, node.uid, node.gid] {
        out.extend(number.to_le_bytes());
    }
    for time in [node.accessed, node.modified, node.changed, node.uploaded] {
        out.extend(time.to_le_bytes());
    }
    out.push(node.stated);
    out.push(u8::from(node.exclusive.is_some()));
    out.extend(node.exclusive.unwrap_or_default());
    out.push(u8::from(node.base.is_some()));
    if let Some(base) = &node.base {
        bytes(out, base.path.as_bytes());
        bytes(out, base.etag.as_bytes());
        out.extend(base.size.to_le_bytes());
        out.extend(base.visible.to_le_bytes());
    }
    match &node.content {
        NodeContent::Directory => out.push(0),
        NodeContent::Link(target) => {
            out.push(1);
            bytes(out, target);
        }
        NodeContent::File(data) => {
            out.push(2);
            out.extend(data.durable_size.to_le_bytes());
            out.extend((data.durable.len() as u64).to_le_bytes());
            for (start, end) in data.durable.iter() {
                out.extend(start.to_le_bytes());
                out.extend(end.to_le_bytes());
            }
        }
    }
    writer(out, node.writer);
}

fn writer(out: &mut Vec<u8>, writer: Option<FileWriter>) {
    let Some(FileWriter { uid, address }) = writer else { return out.push(0) };
    match address {
        IpAddr::V4(address) => {
            out.push(4);
            out.extend(address.octets());
        }
        IpAddr::V6(address) => {
            out.push(6);
            out.extend(address.octets());
        }
    }
    out.extend(uid.to_le_bytes());
}

/// Rest of a record.
struct RecordDecoder<'a>(&'a [u8]);

type Decoded<T> = Option<T>;

impl<'a> RecordDecoder<'a> {
    fn take(&mut self, length: usize) -> Decoded<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn fixed<const LENGTH: usize>(&mut self) -> Decoded<[u8; LENGTH]> {
        self.take(LENGTH)?.try_into().ok()
    }

    fn flag(&mut self) -> Decoded<u8> {
        self.fixed::<1>().map(|[byte]| byte)
    }

    fn word(&mut self) -> Decoded<u32> {
        self.fixed().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Decoded<u64> {
        self.fixed().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Decoded<&'a [u8]> {
        let length = self.word()?;
        self.take(usize::try_from(length).ok()?)
    }

    fn text(&mut self) -> Decoded<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    fn node(&mut self) -> Decoded<Node> {
        let file = FileId { number: self.long()?, generation: self.word()? };
        let (parent, name) = (self.long()?, self.text()?.into());
        let (mode, uid, gid) = (self.word()?, self.word()?, self.word()?);
        let (accessed, modified, changed, uploaded) = (self.long()?, self.long()?, self.long()?, self.long()?);
        let (stated, is_exclusive, number) = (self.flag()?, self.flag()? == 1, self.fixed()?);
        let base = if self.flag()? == 1 {
            let (path, etag) = (self.text()?.into(), self.text()?.into());
            Some(BaseObject { path, etag, size: self.long()?, visible: self.long()? })
        } else {
            None
        };
        let content = match self.flag()? {
            0 => NodeContent::Directory,
            1 => NodeContent::Link(Bytes::copy_from_slice(self.bytes()?)),
            2 => NodeContent::File(self.data()?),
            _ => return None,
        };
        let exclusive = is_exclusive.then_some(number);
        Some(Node {
            file,
            parent,
            name,
            mode,
            uid,
            gid,
            accessed,
            modified,
            changed,
            uploaded,
            stated,
            exclusive,
            writer: None,
            base,
            content,
        })
    }

    fn writer(&mut self) -> Decoded<Option<FileWriter>> {
        let address = match self.flag()? {
            0 => return Some(None),
            4 => IpAddr::from(self.fixed::<4>()?),
            6 => IpAddr::from(self.fixed::<16>()?),
            _ => return None,
        };
        Some(Some(FileWriter { uid: self.word()?, address }))
    }

    fn data(&mut self) -> Decoded<FileData> {
        let (size, count) = (self.long()?, self.long()?);
        let mut durable = Extents::default();
        for _ in 0..count {
            durable.add(self.long()?, self.long()?);
        }
        Some(FileData { size, written: durable.clone(), durable_size: size, durable, unsynced: Extents::default() })
    }

    /// A write, without its token.
    fn upload(&mut self) -> Decoded<OpenUpload> {
        Some(OpenUpload {
            number: self.long()?,
            changed: self.long()?,
            path: self.text()?.into(),
            upload_id: self.text()?.into(),
            modified: self.long()?,
            size: self.long()?,
            part_size: self.long()?,
            token: "".into(),
            is_of_this_process: false,
        })
    }

    fn change(&mut self) -> Decoded<Change> {
        Some(match self.flag()? {
            1 => Change::Share(self.text()?.to_owned()),
            2 => Change::Next(self.long()?),
            3 => Change::Put(Box::new(self.node()?)),
            4 => Change::Remove(self.long()?),
            5 => Change::Hide { parent: self.long()?, name: self.text()?.into() },
            6 => Change::AddRemoval { path: self.text()?.into(), etag: self.text()?.into() },
            7 => Change::Show { parent: self.long()?, name: self.text()?.into() },
            8 => Change::EndRemoval { path: self.text()?.into() },
            9 => Change::BeginUpload(self.upload()?),
            10 => Change::EndUpload(self.long()?),
            11 => {
                let node = self.node()?;
                Change::Put(Box::new(Node { writer: self.writer()?, ..node }))
            }
            12 => Change::Journal(self.text()?.into()),
            13 => Change::UploadOutcome { at: self.long()?, rename: None, line: self.text()?.into() },
            14 => Change::Batched { batch: self.long()?, rename: None, outcomes: self.long()? },
            15 => {
                let upload = self.upload()?;
                Change::BeginUpload(OpenUpload { token: self.text()?.into(), ..upload })
            }
            20 => {
                let (number, name, is_set) = (self.long()?, self.bytes()?.into(), self.flag()? == 1);
                let value = Bytes::copy_from_slice(self.bytes()?);
                Change::Attribute { number, name, value: is_set.then_some(value) }
            }
            21 => Change::NoAttributes(self.long()?),
            22 => {
                let (number, path, upload_id) = (self.long()?, self.text()?.into(), self.text()?.into());
                let (part_size, since) = (self.long()?, self.long()?);
                let object = if self.flag()? == 1 {
                    let (changed, etag) = (self.long()?, self.text()?.into());
                    Some(GrownObject { changed, etag, is_of_this_process: false })
                } else {
                    None
                };
                Change::Grow(GrowingUpload { number, path, upload_id, part_size, since, object })
            }
            23 => Change::EndGrowing(self.long()?),
            24 => {
                let (since, number, files, bytes) = (self.long()?, self.long()?, self.long()?, self.long()?);
                Change::Rename(FolderRename { since, number, from: self.text()?.into(), files, bytes })
            }
            25 => Change::EndRename(self.long()?),
            26 => Change::UploadOutcome { at: self.long()?, rename: Some(self.long()?), line: self.text()?.into() },
            27 => Change::Batched { batch: self.long()?, rename: Some(self.long()?), outcomes: self.long()? },
            _ => return None,
        })
    }
}

/// The changes of a record.
pub(crate) fn decode(record: &[u8]) -> Result<Vec<Change>, String> {
    let mut rest = RecordDecoder(record);
    match rest.flag() {
        Some(EARLIEST_FORMAT..=FORMAT) => {}
        Some(form) => {
            return Err(format!(
                "it has the form {form}, and this program reads the forms {EARLIEST_FORMAT} to {FORMAT}"
            ));
        }
        None => return Err("it is empty".to_owned()),
    }
    let mut changes = Vec::new();
    while !rest.0.is_empty() {
        changes.push(rest.change().ok_or("it does not end as it was written")?);
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(content: NodeContent) -> Change {
        Change::Put(Box::new(Node {
            file: FileId { number: 77, generation: 1 },
            parent: 1,
            name: "é ü".into(),
            mode: 0o4755,
            uid: 1,
            gid: 2,
            accessed: 3,
            modified: u64::MAX,
            changed: 5,
            uploaded: 4,
            stated: 6,
            exclusive: Some([7; 8]),
            writer: Some(FileWriter { uid: 8, address: IpAddr::from([10, 1, 2, 3]) }),
            base: Some(BaseObject { path: "runs/é".into(), etag: "abc".into(), size: 10, visible: 9 }),
            content,
        }))
    }

    fn growing(object: Option<GrownObject>) -> Change {
        let (path, upload_id) = ("uploads/é".into(), "id".into());
        Change::Grow(GrowingUpload { number: 77, path, upload_id, part_size: 8 << 20, since: 4, object })
    }

    fn every_change() -> Vec<Change> {
        let mut durable = Extents::default();
        durable.add(0, 5);
        durable.add(9, 11);
        let data =
            FileData { size: 11, written: durable.clone(), durable_size: 11, durable, unsynced: Extents::default() };
        vec![
            Change::Share("name\nbucket".to_owned()),
            Change::Next(u64::MAX),
            node(NodeContent::Directory),
            node(NodeContent::Link(Bytes::from_static(b"\xff target"))),
            node(NodeContent::File(data)),
            Change::Remove(3),
            Change::Hide { parent: 4, name: "x".into() },
            Change::AddRemoval { path: "runs/a".into(), etag: "etag".into() },
            Change::Show { parent: 4, name: "x".into() },
            Change::EndRemoval { path: "runs/a".into() },
            Change::BeginUpload(OpenUpload {
                number: 77,
                changed: 5,
                path: "runs/é".into(),
                modified: 6,
                size: 7,
                upload_id: "id".into(),
                part_size: 8 << 20,
                token: "0123".into(),
                is_of_this_process: false,
            }),
            Change::EndUpload(77),
            Change::Journal("0123".into()),
            Change::UploadOutcome { at: 7, rename: None, line: "{\"path\":\"runs/é\"}".into() },
            Change::UploadOutcome { at: 7, rename: Some(8), line: "{}".into() },
            Change::Batched { batch: 3, rename: None, outcomes: 2 },
            Change::Batched { batch: 4, rename: Some(8), outcomes: 1 },
            Change::Attribute { number: 77, name: (*b"user.\xff").into(), value: Some(Bytes::from_static(b"\0value")) },
            Change::Attribute { number: 77, name: (*b"user.x").into(), value: None },
            Change::NoAttributes(77),
            growing(None),
            growing(Some(GrownObject { changed: 9, etag: "etag".into(), is_of_this_process: false })),
            Change::EndGrowing(77),
            Change::Rename(FolderRename { since: 8, number: 78, from: "runs/é".into(), files: 3, bytes: 9 }),
            Change::EndRename(8),
        ]
    }

    #[test]
    fn changes_come_back_and_a_cut_or_foreign_record_is_refused() {
        let changes = every_change();
        let record = encode(&changes);
        assert_eq!(decode(&record), Ok(changes.clone()));
        let ends: Vec<usize> = (0..=changes.len()).map(|count| encode(&changes[..count]).len()).collect();
        for length in 0..record.len() {
            assert_eq!(decode(&record[..length]).is_ok(), ends.contains(&length), "{length} bytes");
        }
        let mut other = record;
        other[0] = EARLIEST_FORMAT;
        assert_eq!(decode(&other), Ok(changes));
        other[0] = 1;
        assert!(decode(&other).unwrap_err().contains("form 1"));
    }

    /// A record as the version before wrote it, byte by byte: a write in parts, then its end.
    #[test]
    fn a_write_that_an_earlier_version_announced_is_read_without_a_token() {
        let mut record = vec![4, 9];
        record.extend(77_u64.to_le_bytes());
        record.extend(5_u64.to_le_bytes());
        for text in ["runs/a", "id"] {
            record.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            record.extend(text.as_bytes());
        }
        for number in [6_u64, 7, 8 << 20] {
            record.extend(number.to_le_bytes());
        }
        record.push(10);
        record.extend(77_u64.to_le_bytes());
        let open = OpenUpload {
            number: 77,
            changed: 5,
            path: "runs/a".into(),
            modified: 6,
            size: 7,
            upload_id: "id".into(),
            part_size: 8 << 20,
            token: "".into(),
            is_of_this_process: false,
        };
        assert_eq!(decode(&record), Ok(vec![Change::BeginUpload(open), Change::EndUpload(77)]));
    }

    #[test]
    fn what_was_not_committed_is_not_written() {
        let mut data = FileData::default();
        (data.size, data.durable_size) = (100, 10);
        data.written.add(0, 100);
        data.durable.add(0, 10);
        data.unsynced.add(10, 100);
        let Change::Put(found) = decode(&encode(&[node(NodeContent::File(data))])).unwrap().remove(0) else { panic!() };
        let data = found.data().unwrap();
        assert_eq!((data.size, data.written.pieces(0, 20)), (10, vec![(0, 10, true), (10, 20, false)]));
    }
}
