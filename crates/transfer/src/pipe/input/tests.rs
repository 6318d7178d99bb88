//! Tests of journals of pipes: a full disk and a missing folder abort the upload, and the error names the cause.

use std::io::Write as _;
use std::os::fd::OwnedFd;

use seqferry_client::{Budget, BudgetLimits};
use seqferry_client::{Endpoint, RequestMetrics, RetryPolicy};
use seqferry_store::prelude::*;
use seqferry_store_testing::MemoryStore;
use tokio_util::sync::CancellationToken;

use super::*;

/// An object in parts of 10 bytes, with its upload's id recorded in this file.
async fn store_with_journal(store: &Arc<MemoryStore>, journal: &str) -> PipeEnd {
    let endpoint = Endpoint::new(Arc::clone(store) as Arc<dyn ObjectStore>);
    let (budget, metrics) = (Budget::new(BudgetLimits::default()), Arc::new(RequestMetrics::default()));
    let client = RetryingClient::new(endpoint, budget, RetryPolicy::default(), CancellationToken::new(), metrics);
    let target = InputTarget { bucket: "runs".to_owned(), key: "r1/s1.fastq".to_owned() };
    let options = InputOptions { part_size: Some(10), journal: Some(journal.into()), ..InputOptions::default() };
    let (source, mut sink) = io::pipe().unwrap();
    sink.write_all(b"ACGTACGTACGTACGTACGTACGTA").unwrap();
    drop(sink);
    store_input(client, target, options, OwnedFd::from(source).into(), ByteCounter(Arc::default())).await
}

#[tokio::test]
async fn an_upload_whose_journal_is_on_a_full_disk_is_aborted_and_the_error_says_so() {
    let store = Arc::new(MemoryStore::new(1));
    store.create_bucket("runs");

    for (journal, code, cause, advice) in [
        ("/dev/full", "DiskFull", "No space left on device", "free_disk"),
        ("/nowhere/upload", "NoSuchFolder", "No such file or directory", "check_path"),
    ] {
        let end = store_with_journal(&store, journal).await;

        let Err(PipeError::Failed(failure)) = end else { panic!("{end:?} with the journal {journal}") };
        let message = format!(
            "RecordUpload s3://runs/r1/s1.fastq: {code}: the id of the upload cannot be written to {journal}: {cause}"
        );
        assert!(failure.message.starts_with(&message), "{failure}");
        assert!(failure.message.contains(&format!(". {advice}")), "{failure}");
        assert_eq!((failure.operation, failure.code.as_str()), ("RecordUpload", code));
        assert!(store.list_uploads("runs", "").await.unwrap().is_empty());
        assert!(store.head(ObjectRef::new("runs", "r1/s1.fastq"), None).await.is_err());
    }
}
