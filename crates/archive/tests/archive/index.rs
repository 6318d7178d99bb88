//! Sidecar indexes: built in all ways, read again, and noticed when they do not fit.

use std::fmt::Write as _;

use proptest::prelude::*;
use seqferry_archive::index::{
    Index, IndexError, IndexFault, IndexHead, IndexLimits, IndexMatch, IndexMember, IndexReader, IndexWriter,
    MemberSource, TarIdentity, build_by_hops, build_from_stream, spot_checks, verify_member,
};
use seqferry_archive::write::{ArchiveEntry, Layout};
use seqferry_archive::{ArchiveError, ReadOptions};

use crate::corpus::cases;
use crate::support::strict;

fn identity(tar: &[u8]) -> TarIdentity {
    TarIdentity { size: tar.len() as u64, etag: Some("\"abc-2\"".to_owned()), ..TarIdentity::default() }
}

fn head(tar: &[u8]) -> IndexHead {
    IndexHead::new("seqferry test", identity(tar), None)
}

fn tar() -> Vec<u8> {
    let entries = [
        ArchiveEntry::file("a", 3),
        ArchiveEntry::file(format!("b{}", "ü".repeat(90)), 700),
        ArchiveEntry::symbolic_link("c", "a"),
    ];
    Layout::plan(&entries).unwrap().assemble(|member| vec![b'x'; usize::try_from(entries[member].size()).unwrap()])
}

fn index(tar: &[u8]) -> Vec<u8> {
    build_from_stream(&head(tar), tar.chunks(100), ReadOptions::default()).unwrap()
}

fn by_hops(tar: &[u8], window: usize) -> (Vec<u8>, usize) {
    let mut reads = 0;
    let read = |range: std::ops::Range<u64>| -> Result<Vec<u8>, ArchiveError> {
        reads += 1;
        let (start, end) = (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap());
        Ok(tar[start..end.max(start + window).min(tar.len())].to_vec())
    };
    (build_by_hops(&head(tar), ReadOptions::default(), read).unwrap().0, reads)
}

#[test]
fn an_index_holds_what_the_header_reader_returns() {
    for case in cases() {
        let Ok(members) = strict(&case.tar) else { continue };

        let found = Index::read(&index(&case.tar), &IndexLimits::default()).unwrap();
        let hopped = Index::read(&by_hops(&case.tar, 512).0, &IndexLimits::default()).unwrap();

        assert_eq!(found.members.len(), members.len(), "{}", case.name);
        for ((streamed, hopped), (member, data)) in found.members.iter().zip(&hopped.members).zip(&members) {
            assert_eq!(&streamed.member, member, "{}", case.name);
            assert_eq!(&hopped.member, member, "{}", case.name);
            let crc = crc_of(data);
            assert!(streamed.crc32c == Some(crc) || member.refusal.is_some());
            let at = |offset: u64| usize::try_from(offset).unwrap();
            let headers = &case.tar[at(member.header_offset)..at(member.data_offset)];
            let verified = verify_member(streamed, headers, &ReadOptions::default());
            assert!(verified.is_ok() || member.refusal.is_some(), "{}: {verified:?}", case.name);
        }
    }
}

fn crc_of(data: &[u8]) -> u32 {
    let reflected = |crc: u32, byte: u8| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 })
    };
    !data.iter().fold(u32::MAX, |crc, byte| reflected(crc, *byte))
}

#[test]
fn reads_that_bring_more_than_asked_for_save_requests() {
    let tar = tar();

    let (narrow, many) = by_hops(&tar, 512);
    let (wide, few) = by_hops(&tar, 1 << 20);

    assert_eq!(narrow, wide);
    assert_eq!(few, 1);
    assert!(many > few);
}

#[test]
fn facts_beside_the_headers_are_kept() {
    let tar = tar();
    let members = strict(&tar).unwrap();
    let (mut writer, mut bytes) = IndexWriter::new(&IndexHead::new("t", identity(&tar), Some(3)));
    let mut written = Vec::new();
    for (member, _) in members {
        let entry = IndexMember {
            crc32c: Some(7),
            sha256: Some("ab".repeat(32)),
            md5: Some("cd".repeat(16)),
            source: Some(MemberSource { key: "k ü".to_owned(), etag: Some("e".to_owned()), version_id: None }),
            ..member.into()
        };
        bytes.extend(writer.member(&entry));
        written.push(entry);
    }
    bytes.extend(writer.finish());

    assert_eq!(Index::read(&bytes, &IndexLimits::default()).unwrap().members, written);
}

#[test]
fn an_index_is_matched_with_the_live_object() {
    let tar = tar();
    let mut index = Index::read(&index(&tar), &IndexLimits::default()).unwrap();
    let size = tar.len() as u64;
    let live = |etag: &str, sha: Option<&str>| TarIdentity {
        size,
        etag: Some(etag.to_owned()),
        sha256: sha.map(str::to_owned),
        ..TarIdentity::default()
    };
    index.head.tar.sha256 = Some("ff".to_owned());

    assert_eq!(index.matches(&live("abc-2", None)), IndexMatch::Object);
    assert_eq!(index.matches(&live("other", None)), IndexMatch::Unproven);
    assert_eq!(index.matches(&live("other", Some("ff"))), IndexMatch::Contents);
    assert_eq!(index.matches(&live("other", Some("ee"))), IndexMatch::Different);
    assert_eq!(index.matches(&TarIdentity { size: size + 512, ..live("abc-2", Some("ff")) }), IndexMatch::Different);
    assert_eq!(index.matches(&TarIdentity { size, ..TarIdentity::default() }), IndexMatch::Unproven);
}

#[test]
fn spot_checks_take_the_ends_and_stay_few() {
    assert!(spot_checks(0, 1).is_empty());
    assert_eq!(spot_checks(1, 1), [0]);
    let chosen = spot_checks(1_000_000, 7);
    assert!(chosen.len() > 10 && chosen.len() <= 18);
    assert_eq!((chosen[0], *chosen.last().unwrap()), (0, 999_999));
    assert_eq!(chosen, spot_checks(1_000_000, 7));
}

#[test]
fn an_index_of_another_tar_is_noticed_at_every_member() {
    let tar = tar();
    let index = Index::read(&index(&tar), &IndexLimits::default()).unwrap();
    let other = Layout::plan(&[ArchiveEntry::file("other", 5000)]).unwrap().assemble(|_| vec![b'y'; 5000]);

    for entry in &index.members {
        let at = |offset: u64| usize::try_from(offset).unwrap().min(other.len());
        let headers = &other[at(entry.member.header_offset)..at(entry.member.data_offset)];
        let error = verify_member(entry, headers, &ReadOptions::default()).unwrap_err();
        assert_eq!(error.fault, IndexFault::Foreign(entry.member.display_name()));
        assert!(error.to_string().starts_with("the index does not belong to this tar"), "{error}");
    }
}

fn fault(text: &str) -> IndexFault {
    Index::read(text.as_bytes(), &IndexLimits::default()).unwrap_err().fault
}

/// An index with these member lines and a tail that fits.
fn lines(size: u64, members: &[&str]) -> Result<Index, IndexError> {
    let (_, head) = IndexWriter::new(&IndexHead::new("t", TarIdentity { size, ..TarIdentity::default() }, None));
    let mut text = String::from_utf8(head).unwrap();
    for line in members {
        text += line;
        text.push('\n');
    }
    let mut crc = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
    crc.update(text.as_bytes());
    let total: u64 = members
        .iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["size"].as_u64().unwrap_or(0))
        .sum();
    let (count, crc) = (members.len(), crc.finalize());
    writeln!(text, "{{\"members\":{count},\"stored_total\":{total},\"sorted\":true,\"crc64nvme\":\"{crc:016x}\"}}")
        .unwrap();
    Index::read(text.as_bytes(), &IndexLimits::default())
}

#[test]
fn offsets_that_a_tar_cannot_have_are_refused() {
    let good = r#"{"name":"a","type":"file","header":0,"data":512,"size":600,"mode":420,"mtime":0}"#;
    assert_eq!(lines(4096, &[good]).unwrap().members.len(), 1);
    for (members, expected) in [
        (
            vec![good, r#"{"name":"b","type":"file","header":1024,"data":1536,"size":1,"mode":420,"mtime":0}"#],
            IndexFault::Place,
        ),
        (
            vec![r#"{"name":"a","type":"file","header":0,"data":512,"size":4096,"mode":420,"mtime":0}"#],
            IndexFault::Place,
        ),
        (vec![r#"{"name":"a","type":"file","header":0,"data":100,"size":1,"mode":420,"mtime":0}"#], IndexFault::Place),
        (vec![r#"{"name":"a","type":"file","header":0,"data":0,"size":1,"mode":420,"mtime":0}"#], IndexFault::Place),
        (
            vec![
                r#"{"name":"a","type":"file","header":0,"data":512,"size":18446744073709551615,"mode":420,"mtime":0}"#,
            ],
            IndexFault::Place,
        ),
        (
            vec![r#"{"name":"a","type":"symbolic_link","header":0,"data":512,"size":1,"mode":420,"mtime":0}"#],
            IndexFault::Field("size"),
        ),
        (
            vec![r#"{"name":"a","type":"file","header":0,"data":512,"size":1,"real_size":9,"mode":420,"mtime":0}"#],
            IndexFault::Field("real_size"),
        ),
        (
            vec![
                r#"{"name":"a","type":"file","header":0,"data":512,"size":1,"real_size":9,"sparse":[[9,1]],"mode":420,"mtime":0}"#,
            ],
            IndexFault::Field("sparse"),
        ),
        (
            vec![r#"{"name":"a","type":"folder","header":0,"data":512,"size":1,"mode":420,"mtime":0}"#],
            IndexFault::Field("type"),
        ),
        (
            vec![
                r#"{"name":"a","name_base64":"/w==","type":"file","header":0,"data":512,"size":1,"mode":420,"mtime":0}"#,
            ],
            IndexFault::Field("name"),
        ),
        (vec![r#"{"type":"file","header":0,"data":512,"size":1,"mode":420,"mtime":0}"#], IndexFault::Field("name")),
        (vec![r#"{"name":"a","type":"file","header":0,"data":512,"mode":420,"mtime":0}"#], IndexFault::Field("size")),
        (
            vec![r#"{"name":"a","type":"file","link":"b","header":0,"data":512,"size":1,"mode":420,"mtime":0}"#],
            IndexFault::Field("link"),
        ),
        (
            vec![r#"{"name":"a","type":"file","header":0,"data":512,"size":1,"mode":420,"mtime":0,"crc32c":"XYZ"}"#],
            IndexFault::Field("crc32c"),
        ),
    ] {
        assert_eq!(lines(4096, &members).unwrap_err().fault, expected, "{members:?}");
    }
}

#[test]
fn what_is_no_whole_index_is_refused() {
    let text = String::from_utf8(index(&tar())).unwrap();
    let without_tail = text[..=text.trim_end().rfind('\n').unwrap()].to_owned();

    assert_eq!(fault(""), IndexFault::NotAnIndex);
    assert_eq!(fault("PK\u{3}\u{4}\n"), IndexFault::NotAnIndex);
    assert_eq!(fault("{\"format\":\"seqferry-tar-index\",\"version\":9}\n"), IndexFault::Version(9));
    assert_eq!(fault(&without_tail), IndexFault::Truncated);
    assert!(matches!(fault(&text.replacen("\"sorted\"", "\"soiled\"", 1)), IndexFault::Json(_)));
    assert_eq!(fault(&format!("{text}{{}}\n")), IndexFault::AfterTail);
    assert_eq!(fault(&format!("{text}x")), IndexFault::AfterTail);
    assert_eq!(fault(&text.replacen("\"mode\":420", "\"mode\":421", 1)), IndexFault::Tail("the checksum"));
    let line = without_tail.lines().nth(1).unwrap();
    assert_eq!(fault(&text.replacen(&format!("{line}\n"), "", 1)), IndexFault::Tail("the number of members"));
    let limits = IndexLimits { members: 2, ..IndexLimits::default() };
    assert_eq!(Index::read(text.as_bytes(), &limits).unwrap_err().fault, IndexFault::Limit("members", 2));
    let limits = IndexLimits { line: 250, ..IndexLimits::default() };
    assert_eq!(Index::read(text.as_bytes(), &limits).unwrap_err().fault, IndexFault::Limit("line bytes", 250));
}

proptest! {
    #[test]
    fn an_index_is_the_same_from_any_chunks(chunk in 1..5000usize) {
        let tar = tar();
        let bytes = build_from_stream(&head(&tar), tar.chunks(chunk), ReadOptions::default()).unwrap();
        prop_assert_eq!(&bytes, &index(&tar));
        let mut reader = IndexReader::new(IndexLimits::default());
        let mut members = Vec::new();
        for part in bytes.chunks(chunk) {
            reader.push(part, |member| members.push(member)).unwrap();
        }
        prop_assert!(reader.finish().is_ok());
        prop_assert_eq!(members, Index::read(&bytes, &IndexLimits::default()).unwrap().members);
    }

    #[test]
    fn a_damaged_index_is_refused(at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let mut bytes = index(&tar());
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(Index::read(&bytes, &IndexLimits::default()).is_err());
    }
}
