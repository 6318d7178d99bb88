//! Extension headers before a member (PAX `x` and `g`, GNU `L` and `K`), and how they change what its header says.

use crate::error::ArchiveFault;
use crate::header::{Header, TarDialect};
use crate::member::{Member, MemberKind};
use crate::pax::{self, PaxRecords, decimal};
use crate::refusal::MemberRefusal;
use crate::sparse::PaxSparse;

/// Extension headers read since the last member.
#[derive(Debug, Default)]
pub(crate) struct Prelude {
    /// Offset of the first of them.
    pub(crate) start: Option<u64>,
    pax: Option<PaxRecords>,
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

/// True when `flag` announces an extension header whose body must be read.
pub(crate) fn is_extension(flag: u8) -> bool {
    // `X` is the `x` of Solaris from before POSIX.
    matches!(flag, b'x' | b'X' | b'g' | b'L' | b'K')
}

/// True when `flag` announces the label of a volume (GNU tar `-V`), which is no member.
pub(crate) fn is_label(flag: u8) -> bool {
    flag == b'V'
}

/// True when `flag` announces an extension header that is not supported and would change how the next header is read.
pub(crate) fn is_unsupported(flag: u8) -> bool {
    // The long names of GNU tar before 1990.
    flag == b'N'
}

impl Prelude {
    pub(crate) fn is_empty(&self) -> bool {
        self.start.is_none()
    }

    /// Refuse an extension header that may not follow those read since the last member.
    pub(crate) fn check_order(&self, flag: u8) -> Result<(), ArchiveFault> {
        let repeated = match flag {
            b'x' | b'X' => self.pax.is_some(),
            b'L' => self.name.is_some(),
            b'K' => self.link.is_some(),
            // A global header or a label applies to later members; between a member and its own headers readers
            // disagree.
            _ => !self.is_empty(),
        };
        if repeated { Err(ArchiveFault::Order(flag)) } else { Ok(()) }
    }

    /// Take the body of an extension header.
    pub(crate) fn add(&mut self, flag: u8, start: u64, body: &[u8]) -> Result<(), ArchiveFault> {
        self.start = self.start.or(Some(start));
        match flag {
            b'x' | b'X' => self.pax = Some(pax::parse(body).map_err(ArchiveFault::Pax)?),
            b'L' => self.name = Some(long_text(body)),
            _ => self.link = Some(long_text(body)),
        }
        Ok(())
    }

    /// The member that these headers and `header` make, without a place. `is_pax`: the archive had PAX headers so far.
    pub(crate) fn apply(
        self,
        header: Header,
        globals: &PaxRecords,
        lenient: bool,
        is_pax: bool,
    ) -> Result<AppliedHeader, ArchiveFault> {
        let mut overrides = Overrides::read(globals, self.pax.unwrap_or_default())?;
        let mut refusal = header.refusal.or(overrides.refusal);
        let sparse_name = overrides.sparse.name().map(<[u8]>::to_vec);
        // A PAX path beside the name of a sparse file is that of the made-up name; all readers prefer the latter.
        let pax_name = sparse_name.or(overrides.path.take());
        let header_kind = header.kind();
        let slash = header.name.ends_with(b"/");
        let (name, name_conflict) = choose(header.name, self.name, pax_name);
        let (link, link_conflict) = choose(header.link, self.link, overrides.link.take());
        if name_conflict || link_conflict {
            refusal = refusal.or(Some(MemberRefusal::AmbiguousName));
        }
        let kind = match header_kind {
            // The directory of old archives: every reader must see the slash.
            MemberKind::File if header.flag == 0 && name.ends_with(b"/") => MemberKind::Directory,
            kind => kind,
        };
        let file_with_slash = kind == MemberKind::File && name.ends_with(b"/");
        let slash_differs = header.flag == 0 && slash != name.ends_with(b"/");
        if file_with_slash || slash_differs {
            refusal = refusal.or(Some(MemberRefusal::AmbiguousKind));
        }
        let has_contents = matches!(kind, MemberKind::File | MemberKind::Other(_)) || header.flag == b'D';
        let stated = match overrides.size {
            Some(pax) if has_contents && header.size != pax && header.size != 0 && !lenient => {
                return Err(ArchiveFault::SizeConflict { header: header.size, pax });
            }
            Some(pax) => pax,
            None => header.size,
        };
        // The size in the header of a folder or a hard link is that in its file system: no reader skips contents for
        // it. Where readers disagree, it is refused: GNU tar skips as much after symbolic links and devices; bsdtar
        // skips as much where a PAX record says it, and after a hard link of a PAX archive; and whether a file that
        // only its slash makes a directory has contents is a matter of the reader.
        let is_skipped_by_none =
            matches!(kind, MemberKind::Directory | MemberKind::HardLink) && !(is_pax && kind == MemberKind::HardLink);
        let is_doubtful = header.flag == 0 || overrides.size.is_some_and(|pax| pax > 0) || !is_skipped_by_none;
        if stated != 0 && !has_contents && is_doubtful {
            return Err(ArchiveFault::SizeOfNonFile { flag: header.flag, size: stated });
        }
        let (size, ignored) = if has_contents { (stated, 0) } else { (0, stated) };
        let is_link = matches!(kind, MemberKind::HardLink | MemberKind::SymbolicLink);
        let link = if is_link { link } else { Vec::new() };
        if name.contains(&0) || link.contains(&0) {
            refusal = refusal.or(Some(MemberRefusal::NulInName));
        }
        refusal = refusal.or(match kind {
            _ if name.is_empty() => Some(MemberRefusal::EmptyName),
            MemberKind::CharacterDevice | MemberKind::BlockDevice => Some(MemberRefusal::Device),
            MemberKind::Fifo => Some(MemberRefusal::Fifo),
            MemberKind::Other(_) => Some(MemberRefusal::UnsupportedType),
            _ => None,
        });
        if header.flag == b'S' && (header.dialect != TarDialect::Gnu || !overrides.sparse.records.is_empty()) {
            return Err(ArchiveFault::Extension(b'S'));
        }
        let (mtime, mtime_nanos) = overrides.mtime.unwrap_or((header.mtime, 0));
        let member = Member {
            name,
            kind,
            link,
            header_offset: 0,
            data_offset: 0,
            stored_size: size,
            size,
            sparse: None,
            mode: header.mode,
            uid: overrides.uid.unwrap_or(header.uid),
            gid: overrides.gid.unwrap_or(header.gid),
            user: overrides.user.unwrap_or(header.user),
            group: overrides.group.unwrap_or(header.group),
            mtime,
            mtime_nanos,
            records: overrides.others,
            refusal,
        };
        Ok(AppliedHeader { member, sparse: overrides.sparse, ignored })
    }
}

/// A member as its headers describe it.
#[derive(Debug)]
pub(crate) struct AppliedHeader {
    /// The member, without a place.
    pub(crate) member: Member,
    /// Its sparse records.
    pub(crate) sparse: PaxSparse,
    /// Size that is stated of a member that has no contents.
    pub(crate) ignored: u64,
}

/// The text of a GNU long name: one NUL, or several, may close it. A NUL in its middle stays and is refused later.
fn long_text(body: &[u8]) -> Vec<u8> {
    let len = body.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    body[..len].to_vec()
}

/// The value that counts, and whether GNU and PAX headers contradict each other.
fn choose(header: Vec<u8>, gnu: Option<Vec<u8>>, pax: Option<Vec<u8>>) -> (Vec<u8>, bool) {
    let conflict = matches!((&gnu, &pax), (Some(gnu), Some(pax)) if gnu != pax);
    (pax.or(gnu).unwrap_or(header), conflict)
}

/// Merge a global header into those before it. Names, sizes and sparse maps cannot be global: that serves attacks only.
pub(crate) fn merge_globals(globals: &mut PaxRecords, body: &[u8], limit: u64) -> Result<(), ArchiveFault> {
    for (key, value) in pax::parse(body).map_err(ArchiveFault::Pax)? {
        if matches!(key.as_str(), "path" | "linkpath" | "size" | "hdrcharset") || key.starts_with("GNU.sparse.") {
            return Err(ArchiveFault::GlobalRecord(key));
        }
        globals.retain(|(known, _)| *known != key);
        if !value.is_empty() {
            globals.push((key, value));
        }
    }
    let total: usize = globals.iter().map(|(key, value)| key.len() + value.len()).sum();
    if total as u64 > limit { Err(ArchiveFault::Limit("global header bytes", limit)) } else { Ok(()) }
}

/// PAX records by their meaning.
#[derive(Debug, Default)]
struct Overrides {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    mtime: Option<(i64, u32)>,
    uid: Option<u64>,
    gid: Option<u64>,
    user: Option<Vec<u8>>,
    group: Option<Vec<u8>>,
    sparse: PaxSparse,
    others: PaxRecords,
    refusal: Option<MemberRefusal>,
}

impl Overrides {
    fn read(globals: &PaxRecords, own: PaxRecords) -> Result<Self, ArchiveFault> {
        let mut found = Self::default();
        let hidden = |key: &String| own.iter().any(|(name, _)| name == key);
        let visible: PaxRecords = globals.iter().filter(|(key, _)| !hidden(key)).cloned().collect();
        // The headers of the member do not tell a time that lies before them: who reads them alone needs it.
        found.others.extend(visible.iter().find(|(key, _)| key == "mtime").cloned());
        for (key, value) in visible.into_iter().chain(own) {
            found.add(key, value)?;
        }
        Ok(found)
    }

    fn add(&mut self, key: String, value: Vec<u8>) -> Result<(), ArchiveFault> {
        if key.starts_with("GNU.sparse.") {
            self.sparse.records.push((key, value));
            return Ok(());
        }
        match key.as_str() {
            // An empty record restores the header's field in POSIX; readers disagree for these.
            "path" | "linkpath" | "size" if value.is_empty() => {
                return Err(ArchiveFault::Pax("a name or size is empty"));
            }
            "path" => self.path = Some(value),
            "linkpath" => self.link = Some(value),
            "size" => self.size = Some(decimal(&value).ok_or(ArchiveFault::Pax("the size is not a number"))?),
            "hdrcharset" if value != b"BINARY" && value != b"ISO-IR 10646 2000 UTF-8" => {
                return Err(ArchiveFault::Pax("the character set of names is not supported"));
            }
            _ if value.is_empty() => {} // Restores the header's field.
            "mtime" => self.mtime = self.number(pax::time(&value)),
            "uid" => self.uid = self.number(decimal(&value)),
            "gid" => self.gid = self.number(decimal(&value)),
            "uname" => self.user = Some(value),
            "gname" => self.group = Some(value),
            "hdrcharset" | "atime" | "ctime" => {}
            _ => self.others.push((key, value)),
        }
        Ok(())
    }

    fn number<T>(&mut self, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.refusal = Some(MemberRefusal::MalformedField);
        }
        value
    }
}
