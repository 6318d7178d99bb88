//! The verdict on every archive of the corpus, and the options that loosen it.

use seqferry_archive::{ArchiveFault, ReadOptions};

use crate::corpus::{Verdict, cases};
use crate::raw::{Head, Tar};
use crate::support::{read, strict};

#[test]
fn every_archive_of_the_corpus_gets_its_verdict() {
    for case in cases() {
        let found = strict(&case.tar);
        match (&case.verdict, &found) {
            (Verdict::Members(expected), Ok(members)) => {
                let names: Vec<_> =
                    members.iter().map(|(member, _)| (member.name.as_slice(), member.stored_size)).collect();
                let expected: Vec<_> = expected.iter().map(|(name, size)| (name.as_bytes(), *size)).collect();
                assert_eq!(names, expected, "{}", case.name);
                assert!(members.iter().all(|(member, _)| member.refusal.is_none()), "{}: {members:?}", case.name);
            }
            (Verdict::Refused(expected), Ok(members)) => {
                let names: Vec<_> =
                    members.iter().map(|(member, _)| (member.name.as_slice(), member.refusal)).collect();
                let expected: Vec<_> = expected.iter().map(|(name, refusal)| (name.as_bytes(), *refusal)).collect();
                assert_eq!(names, expected, "{}", case.name);
            }
            (Verdict::Fault(matches), Err(error)) => assert!(matches(&error.fault), "{}: {error:?}", case.name),
            _ => panic!("{}: {found:?}", case.name),
        }
    }
}

#[test]
fn no_archive_of_the_corpus_smuggles_a_member() {
    for case in cases() {
        for options in [
            ReadOptions::default(),
            ReadOptions { lenient_sizes: true, missing_end: true, concatenated: true, ..ReadOptions::default() },
        ] {
            // With lenient sizes PAX wins: where it says 0, what follows is a member for every such reader.
            let says_zero = case.name == "pax size 0, header size N" && options.lenient_sizes;
            // Every reader takes what follows a folder or a link for the next header.
            let is_header = case.name.ends_with("what may be contents");
            for (member, _) in read(&case.tar, &options).unwrap_or_default() {
                assert!(says_zero || is_header || member.name != b"smuggled", "{}", case.name);
            }
        }
    }
}

#[test]
fn lenient_sizes_believe_the_pax_record() {
    let tar = Tar::default().pax(&[("size", b"5")]).head(Head::new(b"a", b'0', 7)).padded(b"hello").end();

    assert!(matches!(strict(&tar).unwrap_err().fault, ArchiveFault::SizeConflict { header: 7, pax: 5 }));
    let found = read(&tar, &ReadOptions { lenient_sizes: true, ..ReadOptions::default() }).unwrap();
    assert_eq!(found[0].1, b"hello");
}

#[test]
fn a_missing_end_mark_can_be_allowed() {
    let tar = Tar::default().file("a", b"hello").0;

    assert_eq!(strict(&tar).unwrap_err().fault, ArchiveFault::MissingEnd);
    assert_eq!(read(&tar, &ReadOptions { missing_end: true, ..ReadOptions::default() }).unwrap().len(), 1);
}

#[test]
fn concatenated_archives_can_be_allowed_and_keep_their_global_headers_apart() {
    let record = crate::raw::record("mtime", b"77");
    let first = Tar::default().extension(b'g', &record).file("a", b"1").end();
    let tar = [first, Tar::default().file("b", b"2").end()].concat();

    assert_eq!(strict(&tar).unwrap_err().fault, ArchiveFault::DataAfterEnd { archive: true });
    let found = read(&tar, &ReadOptions { concatenated: true, ..ReadOptions::default() }).unwrap();
    let times: Vec<_> = found.iter().map(|(member, _)| (member.name.as_slice(), member.mtime)).collect();
    assert_eq!(times, [(b"a".as_slice(), 77), (b"b", 0o14_500_000_000)]);
}

#[test]
fn what_follows_the_end_mark_can_be_left_out() {
    let sound = Tar::default().file("a", b"1").end();
    let options = |concatenated| ReadOptions { trailing_bytes: true, concatenated, ..ReadOptions::default() };
    let another = Tar::default().file("b", b"2").end();
    for (rest, concatenated, members) in [
        (b"x".to_vec(), false, 1),
        (vec![b'x'; 512], false, 1),
        (vec![b'x'; 5000], true, 1),
        ([vec![0; 17 << 20], vec![b'x'; 5000]].concat(), false, 1),
        (another.clone(), false, 1),
        (another.clone(), true, 2),
        ([another, vec![b'x'; 700]].concat(), true, 2),
    ] {
        let tar = [sound.as_slice(), &rest].concat();
        assert!(strict(&tar).is_err());
        assert_eq!(read(&tar, &options(concatenated)).unwrap().len(), members, "{} bytes", rest.len());
    }
    let lone = Tar::default().file("a", b"1").raw(&[0; 512]).file("b", b"2").end();
    assert_eq!(strict(&lone).unwrap_err().fault, ArchiveFault::LoneZeroBlock);
    assert_eq!(read(&lone, &options(false)).unwrap().len(), 1);
}

#[test]
fn an_archive_of_no_bytes_is_empty_where_a_missing_end_is_allowed() {
    assert!(matches!(strict(&[]).unwrap_err().fault, ArchiveFault::Truncated { .. }));
    assert_eq!(read(&[], &ReadOptions { missing_end: true, ..ReadOptions::default() }).unwrap().len(), 0);
}

#[test]
fn an_error_stays_the_answer() {
    let mut scanner = seqferry_archive::Scanner::new(Some(700), ReadOptions::default());
    scanner.step().unwrap();
    scanner.supply(0, &[b'x'; 512]);

    let first = scanner.step().unwrap_err();

    assert_eq!(scanner.step().unwrap_err(), first);
}

#[test]
fn messages_name_cause_and_place() {
    let tar = Tar::default().file("a", b"1").file("b", b"2").0;

    let error = strict(&tar).unwrap_err();

    assert_eq!(error.to_string(), "the archive has no end mark and may be truncated (at byte 2048 of the archive)");
}
