//! Hostile and odd archives, made in code, each with the verdict that the reader must reach.

use seqferry_archive::{ArchiveFault, MemberRefusal};

use crate::raw::{Head, Tar, record};

/// The verdict on an archive.
pub(crate) enum Verdict {
    /// Members by name and stored size, all of them sound.
    Members(&'static [(&'static str, u64)]),
    /// Members with these refusals; None for sound ones. Positions are sound.
    Refused(&'static [(&'static str, Option<MemberRefusal>)]),
    /// The archive is refused with a fault like this.
    Fault(fn(&ArchiveFault) -> bool),
}

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) tar: Vec<u8>,
    pub(crate) verdict: Verdict,
}

/// Contents that are a header themselves: a reader that loses its place finds `smuggled`.
fn inner() -> Vec<u8> {
    Tar::default().file("smuggled", b"evil").0
}

fn base256(value: u64) -> [u8; 12] {
    let mut field = [0; 12];
    field[0] = 0x80;
    field[4..].copy_from_slice(&value.to_be_bytes());
    field
}

fn with_size(name: &[u8], flag: u8, field: &[u8]) -> Head {
    Head::new(name, flag, 0).put(124, field)
}

macro_rules! fault {
    ($pattern:pat) => {
        Verdict::Fault(|fault| matches!(fault, $pattern))
    };
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name, tar: Vec<u8>, verdict| cases.push(Case { name, tar, verdict });
    let tar = Tar::default;
    let long = "d/".repeat(80) + "file";
    let long: &'static str = Box::leak(long.into_boxed_str());
    let members = |list: Vec<(&'static str, u64)>| Verdict::Members(Vec::leak(list));
    let refused = |name: &'static str, why| Verdict::Refused(Vec::leak(vec![(name, Some(why)), ("after", None)]));
    let x = inner();
    let xlen = x.len() as u64;
    let size = x.len().to_string();

    // Sound, in all dialects.
    add("plain", tar().file("a", b"hello").file("b", b"").end(), members(vec![("a", 5), ("b", 0)]));
    add("no members", tar().end(), members(vec![]));
    add("zeros to a record", tar().file("a", b"1").raw(&[0; 10240]).0, members(vec![("a", 1)]));
    add("one zero block at the end", tar().file("a", b"1").raw(&[0; 512]).0, members(vec![("a", 1)]));
    add("gnu magic", tar().head(Head::new(b"a", b'0', 1).gnu()).padded(b"1").end(), members(vec![("a", 1)]));
    add("v7 magic", tar().head(Head::new(b"a", 0, 1).put(257, &[0; 8])).padded(b"1").end(), members(vec![("a", 1)]));
    add("contiguous file", tar().head(Head::new(b"a", b'7', 1)).padded(b"1").end(), members(vec![("a", 1)]));
    add("v7 directory", tar().head(Head::new(b"d/", 0, 0).put(257, &[0; 8])).end(), members(vec![("d/", 0)]));
    add("prefix", tar().head(Head::new(b"b", b'0', 1).put(345, b"a")).padded(b"1").end(), members(vec![("a/b", 1)]));
    add(
        "base-256 size",
        tar().head(with_size(b"a", b'0', &base256(5))).padded(b"hello").end(),
        members(vec![("a", 5)]),
    );
    add(
        "gnu long name",
        tar().extension(b'L', &[long.as_bytes(), b"\0"].concat()).file("x", b"1").end(),
        members(vec![(long, 1)]),
    );
    add("pax long name", tar().pax(&[("path", long.as_bytes())]).file("x", b"1").end(), members(vec![(long, 1)]));
    add(
        "pax size with empty header size",
        tar().pax(&[("size", size.as_bytes())]).head(Head::new(b"a", b'0', 0)).padded(&x).file("after", b"z").end(),
        members(vec![("a", xlen), ("after", 1)]),
    );
    add(
        "pax size equal to the header's",
        tar().pax(&[("size", b"5")]).file("a", b"hello").end(),
        members(vec![("a", 5)]),
    );
    add(
        "git comment",
        tar().extension(b'g', &record("comment", b"0123")).file("a", b"1").end(),
        members(vec![("a", 1)]),
    );
    add(
        "tar in tar",
        tar().file("inner.tar", &x).file("after", b"z").end(),
        members(vec![("inner.tar", xlen), ("after", 1)]),
    );
    let gnu_long = [long.as_bytes(), b"\0"].concat();
    add(
        "gnu and pax names agree",
        tar().extension(b'L', &gnu_long).pax(&[("path", long.as_bytes())]).file("x", b"1").end(),
        members(vec![(long, 1)]),
    );

    // Sizes that disagree: a reader that believes the other one finds the inner archive.
    add(
        "pax size 0, header size N",
        tar().pax(&[("size", b"0")]).head(Head::new(b"a", b'0', xlen)).padded(&x).end(),
        fault!(ArchiveFault::SizeConflict { .. }),
    );
    add(
        "pax size beside another header size",
        tar().pax(&[("size", b"512")]).head(Head::new(b"a", b'0', xlen)).padded(&x).end(),
        fault!(ArchiveFault::SizeConflict { .. }),
    );
    add(
        "two pax sizes",
        tar().pax(&[("size", b"0"), ("size", size.as_bytes())]).head(Head::new(b"a", b'0', 0)).padded(&x).end(),
        fault!(ArchiveFault::Pax(_)),
    );
    add(
        "two pax headers",
        tar().pax(&[("size", size.as_bytes())]).pax(&[("path", b"b")]).head(Head::new(b"a", b'0', 0)).padded(&x).end(),
        fault!(ArchiveFault::Order(b'x')),
    );
    add(
        "global size",
        tar().extension(b'g', &record("size", size.as_bytes())).head(Head::new(b"a", b'0', 0)).padded(&x).end(),
        fault!(ArchiveFault::GlobalRecord(_)),
    );
    add(
        "global path",
        tar().extension(b'g', &record("path", b"b")).file("a", b"").end(),
        fault!(ArchiveFault::GlobalRecord(_)),
    );
    for (name, value) in [
        ("negative pax size", "-1"),
        ("signed pax size", "+5"),
        ("hexadecimal pax size", "0x5"),
        ("blank pax size", " 5"),
        ("huge pax size", "99999999999999999999"),
    ] {
        add(name, tar().pax(&[("size", value.as_bytes())]).file("a", b"hello").end(), fault!(ArchiveFault::Pax(_)));
    }
    add("empty pax size", tar().pax(&[("size", b"")]).file("a", b"hello").end(), fault!(ArchiveFault::Pax(_)));
    for (name, flag) in [
        ("hard link with size", b'1'),
        ("symlink with size", b'2'),
        ("device with size", b'3'),
        ("directory with size", b'5'),
        ("fifo with size", b'6'),
    ] {
        let head = || Head::new(b"a", flag, xlen).link(b"b");
        // After folders and hard links all readers take what follows for the next header, whatever size is stated.
        // After the others GNU tar skips as much.
        let verdict = |next: &'static str| match flag {
            b'1' | b'5' => Verdict::Refused(Vec::leak(vec![("a", None), (next, None)])),
            _ => fault!(ArchiveFault::SizeOfNonFile { .. }),
        };
        add(name, tar().head(head()).file("after", b"z").end(), verdict("after"));
        add(
            Box::leak(format!("{name}, and what may be contents").into_boxed_str()),
            tar().head(head()).padded(&x).end(),
            verdict("smuggled"),
        );
        add(
            Box::leak(format!("{name}, and contents").into_boxed_str()),
            tar().head(head()).padded(&vec![b'c'; x.len()]).file("after", b"z").end(),
            fault!(ArchiveFault::SizeOfNonFile { .. }),
        );
    }
    add(
        "pax size on a directory",
        tar().pax(&[("size", size.as_bytes())]).head(Head::new(b"d/", b'5', 0)).file("after", b"z").end(),
        fault!(ArchiveFault::SizeOfNonFile { .. }),
    );
    add(
        "two sizes of a directory",
        tar().pax(&[("size", b"9")]).head(Head::new(b"d/", b'5', 4096)).file("after", b"z").end(),
        fault!(ArchiveFault::SizeOfNonFile { .. }),
    );
    add(
        "size of a hard link in a pax archive",
        tar()
            .pax(&[("mtime", b"5.5")])
            .file("b", b"1")
            .head(Head::new(b"a", b'1', 1).link(b"b"))
            .file("after", b"z")
            .end(),
        fault!(ArchiveFault::SizeOfNonFile { .. }),
    );
    // Entries that belong to no member, and folders of incremental archives.
    add("a label", tar().head(Head::new(b"LABEL", b'V', 0).gnu()).file("a", b"1").end(), members(vec![("a", 1)]));
    add(
        "a label of a blank size",
        tar().head(with_size(b"LABEL", b'V', &[0; 12]).gnu()).file("a", b"1").end(),
        members(vec![("a", 1)]),
    );
    add("a label alone", tar().head(Head::new(b"LABEL", b'V', 0).gnu()).end(), members(vec![]));
    add(
        "a label behind a long name",
        tar().extension(b'L', b"b\0").head(Head::new(b"LABEL", b'V', 0).gnu()).file("a", b"1").end(),
        fault!(ArchiveFault::Order(b'V')),
    );
    add(
        "a label beyond the archive",
        tar().head(Head::new(b"LABEL", b'V', 1 << 30).gnu()).file("a", b"1").end(),
        fault!(ArchiveFault::Truncated { .. }),
    );
    add(
        "a folder with its names",
        tar().head(Head::new(b"d/", b'D', 5).gnu()).padded(b"Ya\0\0\0").file("d/a", b"1").end(),
        members(vec![("d/", 5), ("d/a", 1)]),
    );
    add(
        "v7 directory with size",
        tar().head(Head::new(b"d/", 0, xlen).put(257, &[0; 8])).padded(&x).end(),
        fault!(ArchiveFault::SizeOfNonFile { .. }),
    );
    for (name, field) in [
        ("blank size", b"\0\0\0\0\0\0\0\0\0\0\0\0"),
        ("size with a letter", b"0000000001z\0"),
        ("negative size", b"-0000000001\0"),
        ("size after NUL", b"\x00000000005\0\0"),
        ("two sizes in one field", b"00005\x00000000"),
    ] {
        add(name, tar().head(with_size(b"a", b'0', field)).padded(b"hello").end(), fault!(ArchiveFault::Size));
    }
    add(
        "blank size of a folder",
        tar().head(with_size(b"d/", b'5', &[0; 12])).file("d/a", b"1").end(),
        members(vec![("d/", 0), ("d/a", 1)]),
    );
    add("negative base-256 size", tar().head(with_size(b"a", b'0', &[0xff; 12])).end(), fault!(ArchiveFault::Size));
    add(
        "base-256 size beyond 63 bits",
        tar().head(with_size(b"a", b'0', &base256(u64::MAX))).end(),
        fault!(ArchiveFault::Size),
    );
    add(
        "size beyond the archive",
        tar().head(Head::new(b"a", b'0', 1 << 30)).padded(b"hello").end(),
        fault!(ArchiveFault::Truncated { .. }),
    );
    add(
        "largest size",
        tar().head(with_size(b"a", b'0', &base256(i64::MAX as u64))).end(),
        fault!(ArchiveFault::Truncated { .. }),
    );

    // Structure.
    add("empty file", Vec::new(), fault!(ArchiveFault::Truncated { .. }));
    add("gzip", [b"\x1f\x8b".as_slice(), &[7; 600]].concat(), fault!(ArchiveFault::NotTar(Some("gzip"))));
    add("text", [b'x'; 700].to_vec(), fault!(ArchiveFault::NotTar(None)));
    add("cut in a header", tar().file("a", b"1").end()[..300].to_vec(), fault!(ArchiveFault::Truncated { .. }));
    add("cut in contents", tar().file("a", &[1; 600]).end()[..900].to_vec(), fault!(ArchiveFault::Truncated { .. }));
    add("cut in padding", tar().file("a", &[1; 600]).end()[..1500].to_vec(), fault!(ArchiveFault::Truncated { .. }));
    add("no end mark", tar().file("a", b"1").0, fault!(ArchiveFault::MissingEnd));
    add(
        "lone zero block",
        tar().file("a", b"1").raw(&[0; 512]).file("b", b"2").end(),
        fault!(ArchiveFault::LoneZeroBlock),
    );
    add(
        "data after the end",
        tar().file("a", b"1").raw(&[0; 1024]).file("b", b"2").end(),
        fault!(ArchiveFault::DataAfterEnd { archive: true }),
    );
    add(
        "bytes after the end",
        tar().file("a", b"1").raw(&[0; 1024]).raw(&[b'x'; 700]).0,
        fault!(ArchiveFault::DataAfterEnd { archive: false }),
    );
    add("bad checksum", tar().file("a", b"1").raw(&Head::new(b"b", b'0', 0).0).end(), fault!(ArchiveFault::Header));
    add(
        "bad magic",
        tar().file("a", b"1").head(Head::new(b"b", b'0', 0).put(257, b"rats!\x00")).end(),
        fault!(ArchiveFault::Header),
    );
    add("dangling pax", tar().file("a", b"1").pax(&[("path", b"b")]).end(), fault!(ArchiveFault::Dangling));
    add("dangling long name", tar().extension(b'L', b"b\0").end(), fault!(ArchiveFault::Dangling));
    add(
        "two long names",
        tar().extension(b'L', b"b\0").extension(b'L', b"c\0").file("a", b"").end(),
        fault!(ArchiveFault::Order(b'L')),
    );
    add(
        "global header behind a pax header",
        tar().pax(&[("path", b"b")]).extension(b'g', &record("comment", b"x")).file("a", b"").end(),
        fault!(ArchiveFault::Order(b'g')),
    );
    add(
        "solaris extended header",
        tar().extension(b'X', &record("path", b"b")).file("a", b"").end(),
        members(vec![("b", 0)]),
    );
    add("gigantic pax header", tar().head(Head::new(b"p", b'x', 1 << 32)).end(), fault!(ArchiveFault::Limit(..)));
    add("gigantic long name", tar().head(Head::new(b"p", b'L', 1 << 31)).end(), fault!(ArchiveFault::Limit(..)));
    add("empty pax header", tar().head(Head::new(b"p", b'x', 0)).file("a", b"").end(), fault!(ArchiveFault::Pax(_)));
    add(
        "pax record beyond the header",
        tar().extension(b'x', b"99 path=b\n").file("a", b"").end(),
        fault!(ArchiveFault::Pax(_)),
    );
    add(
        "pax record without newline",
        tar().extension(b'x', b"9 path=bb").file("a", b"").end(),
        fault!(ArchiveFault::Pax(_)),
    );
    add(
        "unknown character set",
        tar().pax(&[("hdrcharset", b"EBCDIC")]).file("a", b"").end(),
        fault!(ArchiveFault::Pax(_)),
    );

    // One member is refused, and the next one is where it should be.
    let after = |tar: Tar| tar.file("after", b"z").end();
    add(
        "gnu and pax names differ",
        after(tar().extension(b'L', b"b\0").pax(&[("path", b"c")]).file("a", b"1")),
        refused("c", MemberRefusal::AmbiguousName),
    );
    add(
        "NUL in a pax name",
        after(tar().pax(&[("path", b"a\0b")]).file("x", b"1")),
        refused("a\0b", MemberRefusal::NulInName),
    );
    add(
        "NUL in a gnu name",
        after(tar().extension(b'L', b"a\0b\0").file("x", b"1")),
        refused("a\0b", MemberRefusal::NulInName),
    );
    add(
        "bytes behind the NUL of a name",
        after(tar().head(Head::new(b"a\0b", b'0', 1)).padded(b"1")),
        refused("a", MemberRefusal::NulInName),
    );
    add("empty name", after(tar().head(Head::new(b"", b'0', 1)).padded(b"1")), refused("", MemberRefusal::EmptyName));
    add(
        "prefix without magic",
        after(tar().head(Head::new(b"a", b'0', 1).put(257, &[0; 8]).put(345, b"p")).padded(b"1")),
        refused("a", MemberRefusal::AmbiguousName),
    );
    add(
        "file with a slash",
        after(tar().head(Head::new(b"a/", b'0', 1)).padded(b"1")),
        refused("a/", MemberRefusal::AmbiguousKind),
    );
    add(
        "bad mode",
        after(tar().head(Head::new(b"a", b'0', 1).put(100, b"rw-r--r-")).padded(b"1")),
        refused("a", MemberRefusal::MalformedField),
    );
    add(
        "bad pax time",
        after(tar().pax(&[("mtime", b"soon")]).file("a", b"1")),
        refused("a", MemberRefusal::MalformedField),
    );
    add("character device", after(tar().head(Head::new(b"null", b'3', 0))), refused("null", MemberRefusal::Device));
    add("block device", after(tar().head(Head::new(b"sda", b'4', 0))), refused("sda", MemberRefusal::Device));
    add("fifo", after(tar().head(Head::new(b"pipe", b'6', 0))), refused("pipe", MemberRefusal::Fifo));
    add(
        "unknown type with contents",
        after(tar().head(Head::new(b"a", b'Q', xlen)).padded(&x)),
        refused("a", MemberRefusal::UnsupportedType),
    );
    add("volume label", after(tar().head(Head::new(b"label", b'V', 0).gnu())), members(vec![("after", 1)]));

    // Sparse files: a segment of a block and one of ten bytes.
    let gnu_sparse = |map: &[(u64, u64)], real: u64| {
        let mut head = Head::new(b"s", b'S', 522).gnu().put(483, format!("{real:011o}\0").as_bytes());
        for (at, (offset, len)) in map.iter().enumerate() {
            head = head.put(386 + 24 * at, format!("{offset:011o}\0{len:011o}\0").as_bytes());
        }
        head
    };
    let data = [[b'd'; 512].as_slice(), b"0123456789"].concat();
    let sparse = |map: &[(u64, u64)], real| after(tar().head(gnu_sparse(map, real)).padded(&data));
    add("gnu sparse", sparse(&[(0, 512), (1024, 10), (2000, 0)], 2000), members(vec![("s", 522), ("after", 1)]));
    add("gnu sparse beyond its size", sparse(&[(0, 512), (1999, 10)], 2000), refused("s", MemberRefusal::SparseMap));
    add(
        "gnu sparse with overlap",
        sparse(&[(0, 512), (300, 10), (2000, 0)], 2000),
        refused("s", MemberRefusal::SparseMap),
    );
    add(
        "gnu sparse with odd segments",
        sparse(&[(0, 10), (1024, 512), (2000, 0)], 2000),
        refused("s", MemberRefusal::SparseMap),
    );
    let short = sparse(&[(0, 512), (1024, 10)], 2000);
    add("gnu sparse that does not reach its size", short, refused("s", MemberRefusal::SparseMap));
    add("gnu sparse with less than is stored", sparse(&[(0, 512)], 2000), refused("s", MemberRefusal::SparseMap));
    let unknown = gnu_sparse(&[(0, 522)], 522).put(257, b"ustar\x0000");
    add("gnu sparse without magic", after(tar().head(unknown).padded(&data)), fault!(ArchiveFault::Extension(b'S')));
    let keys: [(&str, &[u8]); 4] = [
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.name", b"s"),
        ("GNU.sparse.realsize", b"2000"),
    ];
    let sparse = |map: &[u8]| {
        let contents = [map, vec![0; 512 - map.len()].as_slice(), &data].concat();
        after(tar().pax(&keys).file("GNUSparseFile.0/s", &contents))
    };
    let wrong = |why| refused("s", why);
    add("pax sparse 1.0", sparse(b"3\n0\n512\n1024\n10\n2000\n0\n"), members(vec![("s", 522), ("after", 1)]));
    add("pax sparse 1.0 with a wrong map", sparse(b"3\n0\n512\n1024\n11\n2000\n0\n"), wrong(MemberRefusal::SparseMap));
    add("pax sparse 1.0 with an endless map", sparse(b"9000\n0\n5\n"), wrong(MemberRefusal::SparseMap));
    add("pax sparse 1.0 with a huge map", sparse(b"99999999\n0\n5\n"), wrong(MemberRefusal::SparseTooLarge));
    let keys: [(&str, &[u8]); 4] = [
        ("GNU.sparse.size", b"2000"),
        ("GNU.sparse.numblocks", b"3"),
        ("GNU.sparse.name", b"s"),
        ("GNU.sparse.map", b"0,512,1024,10,2000,0"),
    ];
    let tar01 = after(tar().pax(&keys).file("GNUSparseFile.0/s", &data));
    add("pax sparse 0.1", tar01, members(vec![("s", 522), ("after", 1)]));
    cases
}
