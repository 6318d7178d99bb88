//! Evidence for members and archives in the first pack of a process, which knows nothing of its service yet.

use std::collections::HashMap;

use seqferry_store_testing::MemoryStore;
use seqferry_store_testing::fault::{Fault, Rule};
use seqferry_transfer::{DataPath, IfExists, Outcome, Policy, State, VerificationLevel};

use crate::common::TransferFixture;
use crate::pack::{ARCHIVE, members, pack, packing};

fn store() -> MemoryStore {
    MemoryStore::new(700)
}

/// Verification levels of all members, which must be packed, by id.
fn levels(outcomes: &HashMap<u64, Outcome>) -> Vec<VerificationLevel> {
    let mut ids: Vec<u64> = outcomes.keys().copied().collect();
    ids.sort_unstable();
    assert!(outcomes.values().all(|outcome| outcome.state == State::Done), "{outcomes:?}");
    ids.iter().map(|id| outcomes[id].verified).collect()
}

#[tokio::test]
async fn an_archive_without_checksums_counts_by_its_etag_from_the_first_part_on() {
    for data_path in [DataPath::Copy, DataPath::Stream] {
        let fixture = TransferFixture::of(store().without_checksums());
        let items = members(&fixture, &[10, 500, 0, 1900, 2999]).await;

        let outcomes = pack(&fixture, Policy { data_path, ..packing() }, &items).await;

        assert_eq!(levels(&outcomes), [VerificationLevel::Etag; 5], "{data_path:?}");
    }
}

#[tokio::test]
async fn an_empty_member_counts_as_its_archive_does() {
    for (memory, level) in [
        (store(), VerificationLevel::Checksum),
        (store().without_checksums(), VerificationLevel::Etag),
        (store().without_checksums().with_opaque_etags(), VerificationLevel::Size),
    ] {
        let fixture = TransferFixture::of(memory);
        let items = members(&fixture, &[0, 0]).await;

        let outcomes = pack(&fixture, packing(), &items).await;

        assert_eq!(levels(&outcomes), [level; 2]);
    }
}

#[tokio::test]
async fn an_archive_that_may_not_be_looked_at_counts_by_what_its_completion_stated() {
    let fixture = TransferFixture::of(store());
    let items = members(&fixture, &[10, 500]).await;
    fixture.store.rule(Rule::always("HeadObject", Fault::Fail("AccessDenied", 403)).key(ARCHIVE));

    let outcomes = pack(&fixture, Policy { if_exists: IfExists::Overwrite, ..packing() }, &items).await;

    assert_eq!(levels(&outcomes), [VerificationLevel::Checksum; 2]);
}
