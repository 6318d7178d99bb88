//! Upload plans over random members: every byte once, within the limits of the service.

use proptest::collection::vec;
use proptest::prelude::*;
use seqferry_archive::MemberRefusal;
use seqferry_archive::write::{ArchiveEntry, Layout, LayoutError, PartSource, UploadLimits, plan_upload};

const MIB: u64 = 1 << 20;

fn limits(scale: u64, parts: u64) -> UploadLimits {
    let wide = UploadLimits::default();
    UploadLimits {
        minimum_part: wide.minimum_part / scale,
        maximum_part: wide.maximum_part / scale,
        maximum_parts: parts,
        assembled_part: wide.assembled_part / scale,
        maximum_assembled: wide.maximum_assembled / scale,
        copied_part: wide.copied_part / scale,
        copy_from: wide.copy_from / scale,
    }
}

fn named(sizes: &[u64]) -> Vec<ArchiveEntry> {
    sizes.iter().enumerate().map(|(at, size)| ArchiveEntry::file(format!("{at}"), *size)).collect()
}

proptest! {
    #[test]
    fn parts_cover_the_archive_once_within_the_limits(
        sizes in vec(prop_oneof![0..3 * MIB, 4 * MIB..20 * MIB, 0..2000 * MIB], 0..40),
        copyable in vec(any::<bool>(), 40),
        parts in 3..200u64,
    ) {
        let entries = named(&sizes);
        let layout = Layout::plan(&entries).unwrap();
        let limits = limits(1, parts);
        let plan = match plan_upload(&layout, |member| copyable[member], &limits) {
            Ok(plan) => plan,
            Err(LayoutError::TooManyParts { parts: needed, maximum }) => {
                prop_assert!(needed > parts && maximum == parts);
                // Only an archive that the largest assembled parts do not hold either.
                prop_assert!(layout.total() > limits.maximum_assembled / 2 * parts);
                return Ok(());
            }
            Err(error) => panic!("{error}"),
        };

        let mut next = 0;
        prop_assert!(plan.len() as u64 <= parts);
        for part in &plan {
            prop_assert_eq!(part.range.start, next);
            next = part.range.end;
            let len = part.range.end - part.range.start;
            prop_assert!(len >= limits.minimum_part || next == layout.total());
            prop_assert!(len <= limits.maximum_part);
            match &part.source {
                PartSource::Assembled => prop_assert!(len <= limits.maximum_assembled),
                PartSource::Copied { member, range } => {
                    prop_assert!(copyable[*member] && range.end <= sizes[*member]);
                    prop_assert_eq!(layout.placement(*member).data + range.start, part.range.start);
                    prop_assert_eq!(range.end - range.start, len);
                }
            }
        }
        prop_assert_eq!(next, layout.total());
    }
}

#[test]
fn big_members_pass_through_the_process_with_their_first_bytes_only() {
    let entries = named(&[1000, 900 * MIB, 900 * MIB, 30, 900 * MIB]);
    let layout = Layout::plan(&entries).unwrap();

    let plan = plan_upload(&layout, |_| true, &UploadLimits::default()).unwrap();

    let assembled: u64 = plan
        .iter()
        .filter(|part| part.source == PartSource::Assembled)
        .map(|part| part.range.end - part.range.start)
        .sum();
    assert!(assembled < 16 * MIB, "{assembled}");
    assert_eq!(plan.iter().filter(|part| part.source != PartSource::Assembled).count(), 6);
}

#[test]
fn parts_grow_until_ten_thousand_hold_the_archive() {
    let million = named(&vec![6 * MIB; 200_000]);
    let layout = Layout::plan(&million).unwrap();
    let plan = plan_upload(&layout, |_| true, &UploadLimits::default()).unwrap();
    assert!(plan.len() <= 10_000 && plan.len() > 4_000);

    let many_big = named(&vec![20 * MIB; 30_000]);
    let layout = Layout::plan(&many_big).unwrap();
    let plan = plan_upload(&layout, |_| true, &UploadLimits::default()).unwrap();
    assert!(plan.len() <= 10_000, "copies give way to larger assembled parts: {}", plan.len());
}

#[test]
fn an_archive_beyond_the_service_is_refused_before_it_starts() {
    let entries = named(&[6 << 40, 6 << 40]);
    let layout = Layout::plan(&entries).unwrap();

    let error = plan_upload(&layout, |_| false, &UploadLimits::default()).unwrap_err();

    assert!(error.to_string().contains("split the archive into shards"), "{error}");
    assert!(plan_upload(&layout, |_| true, &UploadLimits::default()).is_ok(), "copies of 5 GiB hold it");
}

#[test]
fn names_that_no_reader_should_unpack_are_not_packed() {
    for (names, refusal) in [
        (["a", "../b"], MemberRefusal::ParentComponent),
        (["a", "/b"], MemberRefusal::AbsolutePath),
        (["a", "a"], MemberRefusal::Duplicate),
        (["a", "a/b"], MemberRefusal::ParentNotDirectory),
        (["a/b", "a"], MemberRefusal::IsDirectory),
        (["a", "b//c"], MemberRefusal::AmbiguousName),
        (["a", "./b"], MemberRefusal::AmbiguousName),
        (["a", "b/"], MemberRefusal::AmbiguousName),
        (["a", ""], MemberRefusal::EmptyName),
    ] {
        let entries = names.map(|name| ArchiveEntry::file(name, 1));
        let error = Layout::plan(&entries).unwrap_err();
        assert_eq!(error, LayoutError::ArchiveEntry { member: 1, name: names[1].to_owned(), refusal });
    }
    let mut entry = ArchiveEntry::file("a", 1);
    entry.records = vec![("size".to_owned(), b"7".to_vec())];
    assert_eq!(Layout::plan(&[entry]).unwrap_err(), LayoutError::Record { member: 0, key: "size".to_owned() });
}
