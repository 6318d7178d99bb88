//! Hostile archives: nothing outside is reached, no contents are shifted, and no file is taken for headers.

use seqferry_vfs::VfsError;
use seqferry_vfs::tar::MemberNodeKind;

use crate::corpus::{Verdict, cases};
use crate::raw::{Head, Tar};
use crate::setting::{Picture, Setting};
use crate::support::strict;

#[tokio::test]
async fn every_archive_of_the_corpus_shows_what_is_sound_and_nothing_else() {
    for case in cases() {
        let setting = Setting::new();
        let (folder, contents) = setting.open(case.tar.clone()).await;
        match (&case.verdict, contents) {
            (Verdict::Fault(matches), Err(VfsError::BadArchive(text))) => {
                let error = strict(&case.tar).unwrap_err();
                assert!(matches(&error.fault) && text.ends_with(&error.to_string()), "{}: {text}", case.name);
            }
            (Verdict::Members(members), Ok(contents)) => {
                let found = setting.picture(&folder, &contents).await;
                let files = found.values().filter(|fact| fact.0 == 'f').count();
                assert!(files as u64 + contents.refused().0 <= members.len() as u64, "{}", case.name);
                assert_sound(case.name, &found);
            }
            (Verdict::Refused(members), Ok(contents)) => {
                let found = setting.picture(&folder, &contents).await;
                let refused = members.iter().filter(|(_, refusal)| refusal.is_some()).count() as u64;
                assert!(contents.refused().0 >= refused, "{}: {:?}", case.name, contents.refused());
                assert!(found.contains_key("after") || !members.contains(&("after", None)), "{}", case.name);
                // After a folder or a hard link, every reader takes what follows for a member.
                if !members.contains(&("smuggled", None)) {
                    assert_sound(case.name, &found);
                }
            }
            (_, found) => panic!("{}: {:?}", case.name, found.map(|contents| contents.len())),
        }
    }
}

fn assert_sound(case: &str, found: &Picture) {
    for path in found.keys() {
        assert!(!path.ends_with("smuggled"), "{case}: {path}");
        assert!(path.split('/').all(|name| !matches!(name, "" | "." | "..")), "{case}: {path}");
    }
}

#[tokio::test]
async fn refused_members_are_counted_and_the_others_stay_where_they_are() {
    let tar = Tar::default()
        .file("../up", b"1")
        .file("/etc/passwd", b"2")
        .file("a/../../b", b"3")
        .head(Head::new(b"device", b'3', 0))
        .file("sound", b"right")
        .end();
    let setting = Setting::new();
    let (folder, contents) = setting.open(tar).await;
    let contents = contents.unwrap();

    let found = setting.picture(&folder, &contents).await;

    assert_eq!(found.keys().collect::<Vec<_>>(), ["sound"]);
    assert_eq!(found["sound"].2, b"right");
    let (count, named) = contents.refused();
    assert_eq!(count, 4);
    assert!(named.iter().any(|refused| refused.name == "../up"), "{named:?}");
}

#[tokio::test]
async fn links_out_of_the_archive_do_not_exist() {
    let link = |name: &str, target: &str| Head::new(name.as_bytes(), b'2', 0).link(target.as_bytes());
    let tar = Tar::default()
        .file("d/file", b"bytes")
        .head(link("absolute", "/etc/passwd"))
        .head(link("up", "../x"))
        .head(link("d/up", "../../x"))
        .head(link("d/out", "middle/../../x"))
        .head(link("d/middle", ".."))
        .head(link("first", "d/middle/.."))
        .head(link("loop", "loop"))
        .head(link("inside", "d/../d/file"))
        .head(Head::new(b"hard", b'1', 0).link(b"../outside"))
        .end();
    let setting = Setting::new();
    let (folder, contents) = setting.open(tar).await;
    let contents = contents.unwrap();

    let found = setting.picture(&folder, &contents).await;

    let links: Vec<&String> = found.iter().filter(|(_, fact)| fact.0 == 'l').map(|(name, _)| name).collect();
    assert_eq!(links, ["d/middle", "inside"], "{:?}", contents.refused());
    assert!(!found.contains_key("hard"));
    assert_eq!(contents.refused().0, 7);
}

#[tokio::test]
async fn a_member_that_replaces_another_wins_as_in_extraction() {
    let tar = Tar::default().file("a", b"old").head(Head::new(b"hard", b'1', 0).link(b"a")).file("a", b"newer").end();
    let setting = Setting::new();
    let (folder, contents) = setting.open(tar).await;
    let found = setting.picture(&folder, &contents.unwrap()).await;

    assert_eq!(found["a"].2, b"newer");
    assert_eq!(found["hard"].2, b"old");
}

#[tokio::test]
async fn names_that_are_no_text_are_counted() {
    let tar = Tar::default().head(Head::new(b"\xff\xfe", b'0', 0)).file("sound", b"").end();
    let setting = Setting::new();
    let contents = setting.open(tar).await.1.unwrap();

    assert_eq!(contents.len(), 2);
    assert_eq!(contents.refused().1[0].reason, "the name is not UTF-8");
    assert_eq!(contents.node(1).unwrap().kind(), MemberNodeKind::File);
}

#[tokio::test]
async fn what_is_no_archive_is_refused_with_words() {
    let cut = Tar::default().file("a", &[1; 5000]).0[..3000].to_vec();
    let table: [(Vec<u8>, &str); 4] = [
        (vec![7; 5000], "not a tar archive"),
        (b"\x1f\x8b\x08".iter().chain(&[0; 2000]).copied().collect(), "looks like gzip"),
        (Vec::new(), "truncated"),
        (cut, "truncated"),
    ];
    for (bytes, words) in table {
        let setting = Setting::new();
        let error = setting.open(bytes).await.1.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
