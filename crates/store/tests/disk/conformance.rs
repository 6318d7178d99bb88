//! The conformance suite over disks.

use seqferry_store::prelude::*;
use seqferry_store::{DiskOptions, DiskStore};
use seqferry_store_testing::conformance::{ServiceQuirks, conformance};
use seqferry_store_testing::fault::FaultStore;

use super::Scratch;

/// Checks that do not apply to a disk: it has no copies, no tags, no attributes except times and permissions, and no
/// digests of its content.
const NOT_APPLICABLE: &[&str] = &[
    "objects::head_returns_facts_of_the_object",
    "objects::attributes_are_kept",
    "objects::an_overwrite_replaces_all",
    "objects::tags_are_replaced",
    "objects::odd_keys_are_kept",
    "copying::attributes_and_tags_travel",
    "copying::copies_are_pinned",
    "copying::sources_are_encoded",
    "copying::storage_classes_are_set",
    "copying::a_copy_replaces_what_was_there",
    "copying::a_copy_of_parts_has_their_bytes",
    "copying::a_checksum_can_be_requested",
    "copying::empty_objects_are_copied",
    "uploads::parts_are_copied",
    "uploads::what_was_requested_at_creation_is_kept",
    // This check has parts of any size, with gaps between them.
    "uploads::parts_are_listed_by_number",
    "uploads::part_copies_are_pinned",
    // This check expects errors of copies and buckets.
    "failing::absent_keys_are_not_found",
    "failing::absent_buckets_stop_the_job",
];

fn quirks(name: &'static str) -> ServiceQuirks {
    let keys = ["..a", "a\nb", " ", "-rf", "a\\b", "\u{e9}", "e\u{301}", "*?[x]", "\u{1f9ec}/x", "a+b %41", "\u{1}"];
    ServiceQuirks {
        name,
        keys: keys.map(str::to_owned).to_vec(),
        storage_class: None,
        minimum_part: 1000,
        skipped_checks: NOT_APPLICABLE,
        digests: false,
        statuses: false,
        seed: 3,
        ..ServiceQuirks::default()
    }
}

#[tokio::test]
async fn a_disk() {
    let scratch = Scratch::new();

    conformance(&super::store(), scratch.bucket(), &quirks("a disk")).await;
}

#[tokio::test]
async fn a_disk_that_is_not_made_sure_of_and_lists_in_small_passes() {
    let scratch = Scratch::new();
    let store = DiskStore::new(DiskOptions { durable: false, names_per_pass: 2, ..DiskOptions::default() });

    conformance(&store, scratch.bucket(), &quirks("a disk in small passes")).await;
}

#[tokio::test]
async fn a_fault_store_over_a_disk() {
    let scratch = Scratch::new();
    let store = FaultStore::new(std::sync::Arc::new(super::store()));

    assert_eq!(store.capabilities(), seqferry_store::Capabilities::DISK);
    conformance(&store, scratch.bucket(), &quirks("faults over a disk")).await;
}
