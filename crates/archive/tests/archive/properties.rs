//! Properties over random entries and random damage.

use proptest::collection::vec;
use proptest::prelude::*;
use seqferry_archive::write::{ArchiveEntry, ArchivePiece, EntryKind, Layout};
use seqferry_archive::{MemberKind, ReadOptions};

use crate::corpus::cases;
use crate::support::{read, sha256, strict};

/// An entry with contents; names are made distinct by the caller.
fn entry() -> impl Strategy<Value = (ArchiveEntry, Vec<u8>)> {
    let name = prop_oneof![
        "[a-z]{1,12}",
        "[a-z]{1,20}/[a-z]{90,130}",
        "(üx|日本|a b){1,40}",
        "([a-y]{1,30}/){1,9}[a-z]{1,100}"
    ];
    let kind = prop_oneof![6 => Just(0), 1 => Just(1), 1 => Just(2)];
    let time = prop_oneof![0..2_000_000_000i64, -5_000_000_000..0i64, Just(i64::from(u32::MAX) * 4)];
    let nanos = prop_oneof![Just(0), 0..1_000_000_000u32];
    let records = proptest::collection::btree_map("SEQFERRY\\.[a-z]{1,9}", vec(any::<u8>(), 1..40), 0..3);
    (name, kind, vec(any::<u8>(), 0..1500), 0..0o10000u32, time, nanos, records).prop_map(
        |(name, kind, data, mode, mtime, mtime_nanos, records)| {
            let (mut entry, data) = match kind {
                0 => (ArchiveEntry::file(name, data.len() as u64), data),
                1 => (ArchiveEntry::directory(name), Vec::new()),
                _ => (ArchiveEntry::symbolic_link(name, format!("t{}", "ü".repeat(data.len() % 90))), Vec::new()),
            };
            entry.mode = mode;
            entry.mtime = mtime;
            entry.mtime_nanos = mtime_nanos;
            entry.records = records.into_iter().collect();
            (entry, data)
        },
    )
}

fn entries() -> impl Strategy<Value = (Vec<ArchiveEntry>, Vec<Vec<u8>>)> {
    vec(entry(), 0..12).prop_map(|list| {
        let numbered = list.into_iter().enumerate().map(|(at, (mut entry, data))| {
            entry.name = [format!("{at}").as_bytes(), &entry.name].concat();
            (entry, data)
        });
        numbered.unzip()
    })
}

proptest! {
    #[test]
    fn entries_that_were_written_are_read_again((entries, contents) in entries()) {
        let layout = Layout::plan(&entries).unwrap();
        let tar = layout.assemble(|member| contents[member].clone());
        prop_assert_eq!(tar.len() as u64, layout.total());

        let found = strict(&tar).unwrap();

        prop_assert_eq!(found.len(), entries.len());
        for (at, (member, data)) in found.into_iter().enumerate() {
            let place = layout.placement(at);
            let mut expected = entries[at].member();
            expected.header_offset = place.header;
            expected.data_offset = place.data;
            prop_assert_eq!(&data, &contents[at]);
            prop_assert_eq!(member, expected);
        }
    }

    #[test]
    fn the_bytes_of_an_archive_do_not_depend_on_how_it_is_cut((entries, contents) in entries(), cut in 1..3000u64) {
        let layout = Layout::plan(&entries).unwrap();
        let whole = layout.assemble(|member| contents[member].clone());
        let mut parts = Vec::new();
        let mut start = 0;
        while start < layout.total() {
            for piece in layout.pieces(start..start + cut) {
                match piece {
                    ArchivePiece::Header(bytes) => parts.extend_from_slice(&bytes),
                    ArchivePiece::Zeros(len) => parts.resize(parts.len() + usize::try_from(len).unwrap(), 0),
                    ArchivePiece::Contents { member, range } => {
                        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
                        parts.extend_from_slice(&contents[member][range]);
                    }
                }
            }
            start += cut;
        }
        prop_assert_eq!(sha256(&parts), sha256(&whole));
    }

    #[test]
    fn a_cut_archive_is_never_complete((entries, contents) in entries(), at in any::<prop::sample::Index>()) {
        let layout = Layout::plan(&entries).unwrap();
        let tar = layout.assemble(|member| contents[member].clone());
        // One block of zeros is end mark enough.
        let cut = at.index(tar.len() - 1023);

        prop_assert!(strict(&tar[..cut]).is_err());
    }

    #[test]
    fn large_sizes_are_stated_twice_and_equal(size in any::<u32>().prop_map(|high| u64::from(high) << 20)) {
        let entry = ArchiveEntry::file("big", size);
        let header = entry.header_bytes();
        prop_assert_eq!(header.len() as u64, entry.header_len());
        prop_assert_eq!(header.len(), if size >> 33 == 0 { 512 } else { 1536 });
        let mut scanner = seqferry_archive::Scanner::new(None, ReadOptions::default());
        while let seqferry_archive::ScanStep::Need { offset, len } = scanner.step().unwrap() {
            let at = usize::try_from(offset).unwrap();
            if at >= header.len() {
                break;
            }
            scanner.supply(offset, &header[at..at + len]);
        }
        prop_assert!(scanner.offset() >= size);
    }

    #[test]
    fn damaged_archives_never_panic_and_never_reach_outside(
        case in any::<prop::sample::Index>(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        blocks in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..3),
        repair in any::<bool>(),
        lenient in any::<bool>(),
    ) {
        let cases = cases();
        let mut tar = cases[case.index(cases.len())].tar.clone();
        if tar.len() >= 512 {
            for (at, byte) in &damage {
                let at = at.index(tar.len());
                tar[at] = *byte;
            }
            for (from, to) in &blocks {
                let (from, to) = (from.index(tar.len() / 512) * 512, to.index(tar.len() / 512) * 512);
                tar.copy_within(from..from + 512, to);
            }
            if repair {
                repair_checksums(&mut tar);
            }
        }
        let options = ReadOptions { lenient_sizes: lenient, missing_end: lenient, concatenated: lenient, ..ReadOptions::default() };

        // `read` asserts that no byte beyond the archive is requested, and that all ways to read agree.
        let Ok(found) = read(&tar, &options) else { return Ok(()) };

        let mut end = 0;
        for (member, data) in &found {
            prop_assert!(member.header_offset >= end && member.data_offset >= member.header_offset + 512);
            prop_assert_eq!(member.stored_size, data.len() as u64);
            end = member.end_offset().unwrap();
            prop_assert!(end <= tar.len() as u64);
            if let Some(map) = &member.sparse {
                prop_assert_eq!(map.0.iter().map(|(_, len)| len).sum::<u64>(), member.stored_size);
                prop_assert!(map.0.iter().all(|(offset, len)| offset + len <= member.size));
            }
            // A folder of an incremental archive has the names of its files.
            let has_contents = matches!(member.kind, MemberKind::File | MemberKind::Directory);
            prop_assert!(has_contents || member.stored_size == 0 || member.refusal.is_some());
        }
    }
}

/// Give every block that could be a header a fitting checksum, so that damage reaches the fields.
fn repair_checksums(tar: &mut [u8]) {
    for block in tar.chunks_exact_mut(512).filter(|block| &block[257..262] == b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

#[test]
fn the_same_entries_make_the_same_bytes_in_every_version() {
    let mut entries = vec![
        ArchiveEntry::directory("run42"),
        ArchiveEntry::file("run42/sample.fastq", 10),
        ArchiveEntry::file(format!("run42/{}", "ä".repeat(80)), 3),
        ArchiveEntry::symbolic_link("run42/latest", "sample.fastq"),
    ];
    entries[1].mtime = 1_700_000_000;
    entries[1].mtime_nanos = 5_000;
    assert_eq!(entries[1].kind, EntryKind::File(10));

    let tar =
        Layout::plan(&entries).unwrap().assemble(|member| vec![b'x'; usize::try_from(entries[member].size()).unwrap()]);

    // A change of this value means that every archive that was ever packed comes out differently now.
    assert_eq!(sha256(&tar), "c28e30621476ef1f10a2b082b71d4b7b0fc4ce19e6e7d82ff003c18b00f45f27");
}
