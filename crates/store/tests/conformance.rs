//! Tests that every store and wrapper passes the same suite; therefore the memory store can be the oracle of other
//! tests.

use std::sync::Arc;

use seqferry_store::prelude::*;
use seqferry_store::{Credentials, EndpointOptions};
use seqferry_store_testing::conformance::{CopiedPartChecksums, ServiceQuirks, conformance};
use seqferry_store_testing::fault::FaultStore;
use seqferry_store_testing::{MemoryStore, connect};
use seqferry_testkit::data::{odd_keys, seed};
use seqferry_testkit::servers::{MOVER, REGION, ServerKind, server};

/// Known quirks of each server (test-servers notes, section 4), in one place.
fn quirks(kind: Option<ServerKind>) -> ServiceQuirks {
    let common = ServiceQuirks {
        keys: odd_keys(kind).into_iter().map(|odd| odd.key).collect(),
        seed: seed(),
        ..ServiceQuirks::default()
    };
    match kind {
        None => ServiceQuirks { name: "memory", ..common },
        Some(ServerKind::Versitygw) => ServiceQuirks {
            name: "versitygw",
            storage_class: None, // row "STANDARD_IA kept"
            // This server answers with the checksum of the whole source if that has the upload's algorithm.
            copied_part_checksums: CopiedPartChecksums::Wrong,
            ..common
        },
        Some(ServerKind::Seaweedfs) => ServiceQuirks {
            name: "SeaweedFS",
            sorted: false,           // row "Order by UTF-8 bytes"
            copy_is_one_part: false, // row "Copy of multipart gives plain MD5"
            // The notes do not mention this; the suite found it with version 4.48.
            copied_part_checksums: CopiedPartChecksums::Missing,
            listed_parts_have_checksums: false,
            keeps_website_redirect: false,
            keeps_empty_metadata: false,
            copies_storage_class: true,
            encodes_listed_uploads: false,
            starts_after_parents: false,
            forgets_replaced_parts: false,
            abort_reports_absence: false,
            checks_size: false,
            copy_reports_absent_bucket: false,
            skipped_checks: &["buckets::a_bucket_is_made_and_removed"], // of its identities only `ADMIN` may make buckets
            ..common
        },
    }
}

async fn on_server(kind: ServerKind) {
    let Some(server) = server(kind) else { return };
    let store = connect(EndpointOptions {
        endpoint_url: Some(server.endpoint_url().to_owned()),
        region: Some(REGION.to_owned()),
        credentials: Some(Credentials {
            access_key: MOVER.access_key.to_owned(),
            secret_key: MOVER.secret_key.to_owned(),
        }),
        ..EndpointOptions::default()
    })
    .await;

    conformance(&store, &server.fresh_bucket(), &quirks(Some(kind))).await;
}

#[tokio::test]
async fn memory() {
    let store = MemoryStore::default();
    store.create_bucket("bucket");

    conformance(&store, "bucket", &quirks(None)).await;
}

#[tokio::test]
async fn memory_with_small_pages_and_parts() {
    let store = MemoryStore::new(1000).with_page_size(2);
    store.create_bucket("bucket");

    conformance(&store, "bucket", &ServiceQuirks { minimum_part: 1000, ..quirks(None) }).await;
}

#[tokio::test]
async fn a_fault_store_without_rules() {
    let memory = Arc::new(MemoryStore::new(1000));
    memory.create_bucket("bucket");
    let store = FaultStore::new(memory as Arc<dyn ObjectStore>);

    conformance(&store, "bucket", &ServiceQuirks { minimum_part: 1000, ..quirks(None) }).await;
}

#[tokio::test]
async fn versitygw() {
    on_server(ServerKind::Versitygw).await;
}

#[tokio::test]
async fn seaweedfs() {
    on_server(ServerKind::Seaweedfs).await;
}
