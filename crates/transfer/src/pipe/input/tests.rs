//! Tests of journals of pipes: a full disk and a missing folder abort the upload, and the error names the cause.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use seqferry_client::{Budget, BudgetLimits};
use seqferry_client::{Endpoint, RequestMetrics, RetryPolicy};
use seqferry_store::prelude::*;
use seqferry_store_testing::MemoryStore;
use seqferry_store_testing::fault::{Fault, FaultStore, Rule};
use tokio_util::sync::CancellationToken;

use super::*;

/// An object in parts of 10 bytes, with its upload's id recorded in this file.
async fn store_with_journal(store: &Arc<MemoryStore>, journal: &str) -> PipeResult {
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

/// Bytes that can be read again.
struct Whole(&'static [u8], std::sync::Mutex<usize>);

impl RateLimited for Whole {
    async fn admit(&self, _bytes: u64) {}
}

impl InputBytes for Whole {
    async fn next(&self, size: u64) -> Result<Bytes, PipeError> {
        let mut at = self.1.lock().unwrap();
        let end = self.0.len().min(*at + usize::try_from(size).unwrap());
        let bytes = Bytes::from_static(&self.0[*at..end]);
        *at = end;
        Ok(bytes)
    }
}

/// A journal that keeps all records.
struct Rows(std::sync::Mutex<Vec<RecordedUpload>>);

impl UploadJournal for &Rows {
    async fn record(&self, upload: &RecordedUpload) -> Result<(), RequestError> {
        self.0.lock().unwrap().push(upload.clone());
        Ok(())
    }
}

const TEXT: &[u8] = b"ACGTACGTACGTACGTACGTACGTA";

async fn store_again(
    store: &Arc<FaultStore>,
    rows: &Rows,
    recorded: Option<RecordedUpload>,
    replaces: ReplaceCondition,
) -> PipeResult {
    let endpoint = Endpoint::new(Arc::clone(store) as Arc<dyn ObjectStore>);
    let (budget, metrics) = (Budget::new(BudgetLimits::default()), Arc::new(RequestMetrics::default()));
    let client = RetryingClient::new(endpoint, budget, RetryPolicy::impatient(), CancellationToken::new(), metrics);
    let target = InputTarget { bucket: "runs".to_owned(), key: "r1/s1.fastq".to_owned() };
    let if_exists = IfExists::Overwrite;
    let options = InputOptions { part_size: Some(10), if_exists, ..InputOptions::default() };
    let bytes = Whole(TEXT, std::sync::Mutex::default());
    store_resumable(client, target, options, ResumableInput { bytes, journal: rows, recorded, replaces }).await
}

#[tokio::test]
async fn an_input_that_can_be_read_again_sends_the_parts_that_are_missing() {
    let memory = Arc::new(MemoryStore::new(1));
    memory.create_bucket("runs");
    let store = Arc::new(FaultStore::new(Arc::clone(&memory) as Arc<dyn ObjectStore>));
    let rows = Rows(std::sync::Mutex::default());
    store.rule(Rule::always("UploadPart", Fault::Fail("InvalidRequest", 400)).part(2));
    store_again(&store, &rows, None, ReplaceCondition::Nothing).await.unwrap_err();
    assert_eq!(memory.list_uploads("runs", "").await.unwrap().len(), 1, "it stays open");
    let recorded = rows.0.lock().unwrap().last().cloned();
    assert_eq!(recorded.as_ref().map(|upload| upload.part_size), Some(10));
    store.clear_rules();
    let report = store_again(&store, &rows, recorded, ReplaceCondition::Nothing).await.unwrap();
    // The first part was there before the second was tried.
    let first = store.requests().iter().filter(|request| request.part == Some(1)).count();
    assert_eq!((report.bytes, first, store.count("CreateMultipartUpload")), (25, 1, 1));
    assert_eq!(report.verified, VerificationLevel::Checksum);
    assert!(memory.list_uploads("runs", "").await.unwrap().is_empty());
    // Only what may be replaced is.
    for (replaces, is_done) in [
        (ReplaceCondition::Nothing, false),
        (ReplaceCondition::Version("0123".to_owned()), false),
        (ReplaceCondition::Version(report.etag.clone()), true),
        (ReplaceCondition::Anything, true),
    ] {
        let end = store_again(&store, &rows, None, replaces.clone()).await;
        assert_eq!(end.is_ok(), is_done, "{replaces:?}");
        if let Err(PipeError::Failed(failure)) = end {
            assert_eq!(failure.class, FailureClass::Store(ErrorClass::Precondition));
        }
    }
}
