//! The lines of an index, and their JSON.
//!
//! Fields with their usual value (no link, owner 0, a size that equals the stored size) are left out. Names that are
//! not UTF-8 are in `name_base64` instead of `name`; the same holds for links and values of PAX records.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::member::{Member, MemberKind, SparseMap};
use crate::refusal::MemberRefusal;

pub(super) const FORMAT: &str = "seqferry-tar-index";
pub(super) const VERSION: u32 = 1;

/// The tar that an index belongs to. Fields that a service does not give are None.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TarIdentity {
    /// Bytes.
    pub size: u64,
    /// `ETag` without quotes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub etag: Option<String>,
    /// Version id.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version_id: Option<String>,
    /// Last-Modified, as the service writes it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_modified: Option<String>,
    /// CRC-64/NVME over the whole tar, as S3 writes it (base64).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub crc64nvme: Option<String>,
    /// CRC-32C over the whole tar, as S3 writes it (base64).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub crc32c: Option<String>,
    /// SHA-256 over the whole tar in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sha256: Option<String>,
}

/// The first line of an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexHead {
    pub(super) format: String,
    pub(super) version: u32,
    /// Program that wrote it.
    pub tool: String,
    /// The tar.
    pub tar: TarIdentity,
    /// Number of members, where it was known in advance.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub members: Option<u64>,
    /// Digest of what the tar was packed of, where it was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub made_of: Option<String>,
}

impl IndexHead {
    /// A head for this tar.
    pub fn new(tool: impl Into<String>, tar: TarIdentity, members: Option<u64>) -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, tool: tool.into(), tar, members, made_of: None }
    }
}

/// The last line of an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IndexTail {
    /// Number of members.
    pub(super) members: u64,
    /// Sum of their stored sizes.
    pub(super) stored_total: u64,
    /// True when names ascend in the order of bytes.
    pub(super) sorted: bool,
    /// CRC-64/NVME of all lines before this one, in hexadecimal.
    pub(super) crc64nvme: String,
}

/// The object that a packed member comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberSource {
    /// Key.
    pub key: String,
    /// `ETag` without quotes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub etag: Option<String>,
    /// Version id.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version_id: Option<String>,
}

/// A member in an index: the member itself, with what is known of its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexMember {
    /// The member, as the header reader returns it.
    pub member: Member,
    /// CRC-32C of the stored bytes.
    pub crc32c: Option<u32>,
    /// SHA-256 of the stored bytes in hexadecimal.
    pub sha256: Option<String>,
    /// MD5 of the stored bytes in hexadecimal.
    pub md5: Option<String>,
    /// Object that a packed member was made from.
    pub source: Option<MemberSource>,
}

impl From<Member> for IndexMember {
    fn from(member: Member) -> Self {
        Self { member, crc32c: None, sha256: None, md5: None, source: None }
    }
}

/// The JSON of a member line.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct IndexLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_base64: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    header: Option<u64>,
    data: Option<u64>,
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    real_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sparse: Option<Vec<(u64, u64)>>,
    mode: u32,
    mtime: i64,
    #[serde(skip_serializing_if = "is_zero_32")]
    mtime_nanos: u32,
    #[serde(skip_serializing_if = "is_zero_64")]
    uid: u64,
    #[serde(skip_serializing_if = "is_zero_64")]
    gid: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_base64: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pax: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pax_base64: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crc32c: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    md5: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<MemberSource>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero_32(value: &u32) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero_64(value: &u64) -> bool {
    *value == 0
}

/// Text where the bytes are UTF-8, else base64.
fn split_text(bytes: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(STANDARD.encode(bytes))),
    }
}

/// The bytes of one of both forms. Some other text for the same bytes is refused: base64 of valid UTF-8, or both forms.
fn join_text(text: Option<String>, base64: Option<&str>) -> Option<Vec<u8>> {
    match (text, base64) {
        (Some(text), None) => Some(text.into_bytes()),
        (None, Some(base64)) => STANDARD.decode(base64).ok().filter(|bytes| std::str::from_utf8(bytes).is_err()),
        _ => None,
    }
}

fn hexadecimal(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

const KINDS: [(MemberKind, &str); 7] = [
    (MemberKind::File, "file"),
    (MemberKind::Directory, "directory"),
    (MemberKind::HardLink, "hard_link"),
    (MemberKind::SymbolicLink, "symbolic_link"),
    (MemberKind::CharacterDevice, "character_device"),
    (MemberKind::BlockDevice, "block_device"),
    (MemberKind::Fifo, "fifo"),
];

fn kind_word(kind: MemberKind) -> String {
    match (kind, KINDS.iter().find(|(known, _)| *known == kind)) {
        (_, Some((_, word))) => (*word).to_owned(),
        (MemberKind::Other(flag), None) => format!("other_{flag}"),
        (_, None) => "other_0".to_owned(),
    }
}

fn kind_of(word: &str) -> Option<MemberKind> {
    let known = KINDS.iter().find(|(_, known)| *known == word).map(|(kind, _)| *kind);
    known.or_else(|| word.strip_prefix("other_")?.parse().ok().map(MemberKind::Other))
}

impl IndexLine {
    pub(super) fn of(entry: &IndexMember) -> Self {
        let member = &entry.member;
        let (name, name_base64) = split_text(&member.name);
        let (link, link_base64) = if member.link.is_empty() { (None, None) } else { split_text(&member.link) };
        let (mut pax, mut pax_base64) = (Vec::new(), Vec::new());
        for (key, value) in &member.records {
            match split_text(value) {
                (Some(text), _) => pax.push((key.clone(), text)),
                (_, base64) => pax_base64.push((key.clone(), base64.unwrap_or_default())),
            }
        }
        let text = |bytes: &[u8]| (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned());
        Self {
            name,
            name_base64,
            kind: kind_word(member.kind),
            header: Some(member.header_offset),
            data: Some(member.data_offset),
            size: Some(member.stored_size),
            real_size: (member.size != member.stored_size).then_some(member.size),
            sparse: member.sparse.as_ref().map(|map| map.0.clone()),
            mode: member.mode,
            mtime: member.mtime,
            mtime_nanos: member.mtime_nanos,
            uid: member.uid,
            gid: member.gid,
            user: text(&member.user),
            group: text(&member.group),
            link,
            link_base64,
            pax,
            pax_base64,
            refused: member.refusal.map(|refusal| refusal.word().to_owned()),
            crc32c: entry.crc32c.map(|crc| format!("{crc:08x}")),
            sha256: entry.sha256.clone(),
            md5: entry.md5.clone(),
            source: entry.source.clone(),
        }
    }

    /// The member, or the field that is wrong.
    pub(super) fn entry(self) -> Result<IndexMember, &'static str> {
        let kind = kind_of(&self.kind).ok_or("type")?;
        let link = match (self.link, self.link_base64) {
            (None, None) => Vec::new(),
            (text, base64) => join_text(text, base64.as_deref()).ok_or("link")?,
        };
        if !link.is_empty() && !matches!(kind, MemberKind::HardLink | MemberKind::SymbolicLink) {
            return Err("link");
        }
        let mut records: Vec<(String, Vec<u8>)> =
            self.pax.into_iter().map(|(key, value)| (key, value.into_bytes())).collect();
        for (key, value) in self.pax_base64 {
            records.push((key, STANDARD.decode(&value).map_err(|_| "pax_base64")?));
        }
        let crc32c = match self.crc32c {
            Some(text) if !hexadecimal(&text, 8) => return Err("crc32c"),
            text => text.and_then(|text| u32::from_str_radix(&text, 16).ok()),
        };
        let digest = |text: &Option<String>, len| text.as_ref().is_none_or(|text| hexadecimal(text, len));
        if !digest(&self.sha256, 64) {
            return Err("sha256");
        }
        if !digest(&self.md5, 32) {
            return Err("md5");
        }
        if self.mtime_nanos > 999_999_999 || self.mode > 0o7777 {
            return Err(if self.mode > 0o7777 { "mode" } else { "mtime_nanos" });
        }
        let stored_size = self.size.ok_or("size")?;
        Ok(IndexMember {
            member: Member {
                name: join_text(self.name, self.name_base64.as_deref()).ok_or("name")?,
                kind,
                link,
                header_offset: self.header.ok_or("header")?,
                data_offset: self.data.ok_or("data")?,
                stored_size,
                size: self.real_size.unwrap_or(stored_size),
                sparse: self.sparse.map(SparseMap),
                mode: self.mode,
                uid: self.uid,
                gid: self.gid,
                user: self.user.unwrap_or_default().into_bytes(),
                group: self.group.unwrap_or_default().into_bytes(),
                mtime: self.mtime,
                mtime_nanos: self.mtime_nanos,
                records,
                refusal: self.refused.map(|word| MemberRefusal::from_word(&word).ok_or("refused")).transpose()?,
            },
            crc32c,
            sha256: self.sha256,
            md5: self.md5,
            source: self.source,
        })
    }
}
