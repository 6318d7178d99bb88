//! An upload session loses nothing and leaks nothing, wherever it is killed and whatever answers are lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use seqferry_client::upload::{
    Completion, PartBody, RecordedUpload, UploadJournal, UploadSession, for_each_page_of_parts, growing_part_size,
};
use seqferry_client::{Budget, BudgetLimits};
use seqferry_client::{Endpoint, RequestError, RequestMetrics, RetryContext, RetryPolicy, RetryingClient};
use seqferry_store::checksum::base64;
use seqferry_store::error::classify::code;
use seqferry_store::prelude::*;
use seqferry_store::{
    Attributes, CompleteUpload, CompletedPart, CreateUpload, DigestAlgorithm, Digester, Digests, ErrorClass, ObjectRef,
    PartInfo, PinnedObject, Range, StoreError, UploadRef, WrittenPart,
};
use seqferry_store_testing::fault::{Fault, FaultStore, Latch, Rule};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const BUCKET: &str = "b";
const KEY: &str = "run/k";
const PART: u64 = 10;
const BYTES: &[u8] = b"0123456789abcdefghijABCDE";

/// Journal of a caller, kept in memory.
#[derive(Debug, Default)]
struct Rows {
    recorded: Mutex<Option<RecordedUpload>>,
    /// The upload ids that were recorded, in order.
    history: Mutex<Vec<String>>,
}

impl Rows {
    fn recorded(&self) -> Option<RecordedUpload> {
        self.recorded.lock().unwrap().clone()
    }
}

impl UploadJournal for Rows {
    async fn record(&self, upload: &RecordedUpload) -> Result<(), RequestError> {
        self.history.lock().unwrap().push(upload.upload_id.clone());
        *self.recorded.lock().unwrap() = Some(upload.clone());
        Ok(())
    }
}

/// A journal that never finishes a record: its caller is killed first.
#[derive(Default)]
struct HangingJournal(Notify);

impl UploadJournal for HangingJournal {
    async fn record(&self, _: &RecordedUpload) -> Result<(), RequestError> {
        self.0.notify_one();
        std::future::pending().await
    }
}

/// A journal whose caller was stopped.
struct StoppedJournal;

impl UploadJournal for StoppedJournal {
    async fn record(&self, _: &RecordedUpload) -> Result<(), RequestError> {
        Err(RequestError::Cancelled)
    }
}

/// A journal on a full disk.
struct FullJournal;

impl UploadJournal for FullJournal {
    async fn record(&self, _: &RecordedUpload) -> Result<(), RequestError> {
        let error = StoreError::new("RecordUpload", BUCKET, Some(KEY), code::DISK_FULL, None);
        Err(error.with_message("no space left for the row").into())
    }
}

struct UploadFixture {
    memory: Arc<MemoryStore>,
    store: Arc<FaultStore>,
    budget: Arc<Budget>,
}

impl UploadFixture {
    fn new() -> Self {
        Self::of(MemoryStore::new(PART))
    }

    fn of(memory: MemoryStore) -> Self {
        let memory = Arc::new(memory);
        memory.create_bucket(BUCKET);
        let store = Arc::new(FaultStore::new(Arc::clone(&memory) as Arc<dyn ObjectStore>));
        Self { memory, store, budget: Budget::new(BudgetLimits::default()) }
    }

    fn session(&self) -> UploadSession {
        self.session_until(CancellationToken::new())
    }

    fn session_until(&self, cancel: CancellationToken) -> UploadSession {
        UploadSession::new(self.client_until(cancel), BUCKET, KEY, 0.0, Arc::new(RetryContext::default()))
    }

    fn client(&self) -> RetryingClient {
        self.client_until(CancellationToken::new())
    }

    fn client_until(&self, cancel: CancellationToken) -> RetryingClient {
        let connection = Endpoint::new(Arc::clone(&self.store) as Arc<dyn ObjectStore>);
        let moment = Duration::from_millis(1);
        let (base, throttled_base, most) = (moment, moment, Duration::from_millis(4));
        let policy = RetryPolicy { base, throttled_base, most, ..RetryPolicy::default() };
        let metrics = Arc::new(RequestMetrics::default());
        RetryingClient::new(connection, Arc::clone(&self.budget), policy, cancel, metrics)
    }

    async fn open_uploads(&self) -> usize {
        self.memory.list_uploads(BUCKET, "").await.unwrap().len()
    }

    async fn object(&self) -> Option<Vec<u8>> {
        let meta = self.memory.head(ObjectRef::new(BUCKET, KEY), None).await.ok()?;
        let mut body = self.memory.get(&PinnedObject::of(BUCKET, KEY, &meta), None).await.unwrap();
        Some(body.take(1000, |_| ()).await.unwrap().to_vec())
    }
}

fn create(session: &UploadSession) -> CreateUpload {
    CreateUpload { part_size: PART, size: BYTES.len() as u64, ..session.request() }
}

/// The parts of [`BYTES`].
fn pieces() -> impl Iterator<Item = (u32, &'static [u8])> {
    (1..).zip(BYTES.chunks(usize::try_from(PART).unwrap()))
}

async fn put(session: &UploadSession, number: u32, bytes: &'static [u8]) -> Result<CompletedPart, RequestError> {
    let body = PartBody { bytes: bytes.into(), digests: Digests::crc64nvme(bytes), memory: None };
    let answer = session.put_part(number, body).await?;
    Ok(CompletedPart { number, etag: answer.etag, checksum: answer.checksum })
}

async fn put_all(session: &UploadSession) -> Result<Vec<CompletedPart>, RequestError> {
    let mut parts = Vec::new();
    for (number, bytes) in pieces() {
        parts.push(put(session, number, bytes).await?);
    }
    Ok(parts)
}

fn completion(parts: Vec<CompletedPart>) -> CompleteUpload {
    CompleteUpload { parts, size: BYTES.len() as u64, ..CompleteUpload::default() }
}

/// Uploads the object as a caller does after a start: continues with a recorded upload, else begins a new one.
async fn upload(fixture: &UploadFixture, rows: &Rows) -> Result<(), RequestError> {
    let mut session = fixture.session().recorded(rows.recorded());
    let had_upload = session.open().is_some();
    let parts = match session.adopt().await? {
        Some(there) => {
            let mut parts = Vec::new();
            for (number, bytes) in pieces() {
                match there.iter().find(|part| part.number == number && part.size == bytes.len() as u64) {
                    Some(part) => {
                        parts.push(CompletedPart { number, etag: part.etag.clone(), checksum: part.checksum.clone() });
                    }
                    None => parts.push(put(&session, number, bytes).await?),
                }
            }
            parts
        }
        None if had_upload && fixture.object().await.as_deref() == Some(BYTES) => return Ok(()),
        None => {
            session.sweep(None).await?;
            let request = create(&session);
            session.begin(&request, rows).await?;
            put_all(&session).await?
        }
    };
    match session.complete(completion(parts)).await? {
        Completion::Object(_) => {}
        Completion::Gone(_) => {
            assert_eq!(
                fixture.object().await.as_deref(),
                Some(BYTES),
                "completed by the attempt whose answer was lost"
            );
            session.confirm_completed();
        }
    }
    Ok(())
}

#[tokio::test]
async fn killed_at_any_request_the_next_run_ends_with_the_object_and_no_open_upload() {
    let requests = [("CreateMultipartUpload", 1), ("UploadPart", 3), ("CompleteMultipartUpload", 1)];
    for (operation, count) in requests {
        for nth in 0..count {
            for arrived in [false, true] {
                let (fixture, rows, latch) = (UploadFixture::new(), Rows::default(), Latch::default());
                let fault = if arrived { Fault::HoldReply(latch.clone()) } else { Fault::Hold(latch.clone()) };
                fixture.store.rule(Rule::once(operation, fault).after(nth));
                tokio::select! {
                    ended = upload(&fixture, &rows) => panic!("{ended:?} although {operation} has no answer"),
                    () = latch.reached() => {}
                }
                fixture.store.clear_rules();

                upload(&fixture, &rows).await.unwrap();

                let at = format!("killed in {operation} {nth}, which arrived: {arrived}");
                assert_eq!(fixture.object().await.as_deref(), Some(BYTES), "{at}");
                assert_eq!(fixture.open_uploads().await, 0, "{at}");
                if operation != "CreateMultipartUpload" {
                    assert_eq!(rows.history.lock().unwrap().len(), 1, "{at}: the recorded upload went on");
                }
            }
        }
    }
}

#[tokio::test]
async fn an_upload_that_was_created_and_never_recorded_is_swept() {
    let (fixture, journal) = (UploadFixture::new(), HangingJournal::default());
    let mut session = fixture.session();
    let request = create(&session);
    tokio::select! {
        ended = session.begin(&request, &journal) => panic!("{ended:?} without a record"),
        () = journal.0.notified() => {}
    }
    drop(session);
    assert_eq!(fixture.open_uploads().await, 1);

    fixture.session().sweep(None).await.unwrap();

    assert_eq!(fixture.open_uploads().await, 0);
}

#[tokio::test]
async fn an_upload_that_holds_a_part_is_never_swept() {
    let (fixture, rows) = (UploadFixture::new(), Rows::default());
    let mut other = fixture.session();
    let request = create(&other);
    other.begin(&request, &rows).await.unwrap();
    put(&other, 1, b"0123456789").await.unwrap();

    fixture.session().sweep(None).await.unwrap();

    assert_eq!(fixture.open_uploads().await, 1);
}

#[tokio::test]
async fn a_caller_that_was_stopped_before_it_recorded_leaves_no_upload() {
    let fixture = UploadFixture::new();
    let mut session = fixture.session();

    let request = create(&session);
    let begun = session.begin(&request, &StoppedJournal).await;

    assert!(matches!(begun, Err(RequestError::Cancelled)));
    assert!(session.open().is_none());
    assert_eq!(fixture.open_uploads().await, 0);
}

#[tokio::test]
async fn an_upload_that_cannot_be_recorded_is_aborted_and_the_error_names_the_cause() {
    let fixture = UploadFixture::new();
    let mut session = fixture.session();

    let request = create(&session);
    let begun = session.begin(&request, &FullJournal).await;

    let Err(RequestError::Failed(error)) = begun else { panic!("{begun:?} without a record") };
    assert_eq!(error.to_string(), "RecordUpload s3://b/run/k: DiskFull: no space left for the row");
    assert!(session.open().is_none());
    assert_eq!(fixture.open_uploads().await, 0);
    assert_eq!(fixture.store.count("UploadPart"), 0);
}

#[tokio::test]
async fn every_part_of_an_upload_is_listed_page_by_page() {
    let memory = Arc::new(MemoryStore::new(PART).with_page_size(2));
    memory.create_bucket(BUCKET);
    let store = Arc::new(FaultStore::new(Arc::clone(&memory) as Arc<dyn ObjectStore>));
    let fixture = UploadFixture { memory, store, budget: Budget::new(BudgetLimits::default()) };
    let mut session = fixture.session();
    let request = create(&session);
    session.begin(&request, &Rows::default()).await.unwrap();
    put_all(&session).await.unwrap();
    let upload_id = session.open().unwrap().upload_id.clone();
    let list = async |upload_id: &str| {
        let (mut pages, upload) = (Vec::new(), UploadRef::new(BUCKET, KEY, upload_id));
        let visit = |parts: Vec<PartInfo>| pages.push(parts.iter().map(|part| part.size).collect::<Vec<_>>());
        for_each_page_of_parts(&fixture.client(), &RetryContext::default(), upload, visit).await.map(|()| pages)
    };

    assert_eq!(list(&upload_id).await.unwrap(), [vec![10, 10], vec![5]]);
    let absent = list("absent").await;
    assert!(matches!(absent, Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound));
}

#[tokio::test]
async fn a_create_whose_answer_was_lost_leaves_one_upload_only() {
    let (fixture, rows) = (UploadFixture::new(), Rows::default());
    fixture.store.rule(Rule::once("CreateMultipartUpload", Fault::LoseReply));
    let mut session = fixture.session();

    let request = create(&session);
    session.begin(&request, &rows).await.unwrap();

    let open = fixture.memory.list_uploads(BUCKET, "").await.unwrap();
    assert_eq!(open.len(), 1);
    assert_eq!(session.open().unwrap().upload_id, open[0].upload_id);
    assert_eq!(rows.recorded().unwrap().upload_id, open[0].upload_id);
}

#[tokio::test]
async fn a_complete_whose_answer_was_lost_says_that_the_upload_is_gone() {
    let (fixture, rows) = (UploadFixture::new(), Rows::default());
    let mut session = fixture.session();
    let request = create(&session);
    session.begin(&request, &rows).await.unwrap();
    let parts = put_all(&session).await.unwrap();
    fixture.store.rule(Rule::once("CompleteMultipartUpload", Fault::LoseReply));

    let completed = session.complete(completion(parts)).await.unwrap();

    assert!(matches!(completed, Completion::Gone(error) if error.code == "NoSuchUpload"));
    assert!(session.open().is_none());
    assert_eq!(fixture.object().await.as_deref(), Some(BYTES));
}

/// A part, sent or copied.
async fn write_part(session: &UploadSession, number: u32, copy_of: Option<&PinnedObject>) -> WrittenPart {
    let Some(source) = copy_of else {
        // Services without checksums get no other digest than the MD5, and here not even that.
        let body = PartBody { bytes: BYTES[..10].into(), digests: Digests::default(), memory: None };
        return session.put_part(number, body).await.unwrap();
    };
    let reserved = session.reserve_copy(number, Range { first: 0, last: PART - 1 }).await.unwrap();
    session.copy_part(source, reserved).await.unwrap()
}

#[tokio::test]
async fn a_part_found_after_a_lost_answer_has_a_digest_for_its_etag_only_where_another_answer_shows_it() {
    for (opaque, operation) in [false, true].into_iter().flat_map(|o| [(o, "UploadPart"), (o, "UploadPartCopy")]) {
        let memory = MemoryStore::new(PART).without_checksums();
        let fixture = UploadFixture::of(if opaque { memory.with_opaque_etags() } else { memory });
        let source = fixture.memory.put(BUCKET, "source", BYTES.into(), &Attributes::default()).await.unwrap();
        let source = PinnedObject::listed(ObjectRef::new(BUCKET, "source"), &source.etag, BYTES.len() as u64);
        let copy_of = (operation == "UploadPartCopy").then_some(&source);
        let (mut session, rows) = (fixture.session(), Rows::default());
        let request = create(&session);
        session.begin(&request, &rows).await.unwrap();
        let mut found = Vec::new();

        for number in [1, 2, 3] {
            if number != 2 {
                fixture.store.rule(Rule::always(operation, Fault::LoseReply).part(number));
            }
            found.push(write_part(&session, number, copy_of).await.opaque_etag);
        }

        // Before the first answer nothing is known of the ETags.
        assert_eq!(found, [true, opaque, opaque], "{operation}");
    }
}

#[tokio::test]
async fn a_part_found_before_any_answer_has_a_digest_for_its_etag_where_it_is_the_md5_that_was_sent() {
    for opaque in [false, true] {
        let memory = MemoryStore::new(PART).without_checksums();
        let fixture = UploadFixture::of(if opaque { memory.with_opaque_etags() } else { memory });
        let (mut session, rows) = (fixture.session(), Rows::default());
        let request = create(&session);
        session.begin(&request, &rows).await.unwrap();
        fixture.store.rule(Rule::always("UploadPart", Fault::LoseReply));
        let md5 = base64(&Digester::of(DigestAlgorithm::Md5, &BYTES[..10]));
        let digests = Digests { checksum: None, md5: Some(md5) };

        let part = session.put_part(1, PartBody { bytes: BYTES[..10].into(), digests, memory: None }).await.unwrap();

        assert_eq!(part.opaque_etag, opaque);
    }
}

#[tokio::test]
async fn a_part_of_a_lost_upload_says_so_and_the_session_begins_again() {
    let (fixture, rows) = (UploadFixture::new(), Rows::default());
    let mut session = fixture.session();
    let request = create(&session);
    session.begin(&request, &rows).await.unwrap();
    // A lifecycle rule.
    fixture.memory.abort_upload(UploadRef::new(BUCKET, KEY, &session.open().unwrap().upload_id)).await.unwrap();

    let lost = put(&session, 1, b"0123456789").await;

    assert!(matches!(lost, Err(RequestError::Failed(error)) if error.code == "NoSuchUpload"));
    session.abort(false).await;
    session.begin(&request, &rows).await.unwrap();
    let parts = put_all(&session).await.unwrap();
    assert!(matches!(session.complete(completion(parts)).await.unwrap(), Completion::Object(_)));
    assert_eq!(fixture.object().await.as_deref(), Some(BYTES));
}

#[tokio::test]
async fn an_abort_asks_for_the_parts_that_are_left_where_some_may_have_been_sent() {
    for (way, looks) in [("no part", 0), ("put", 1), ("written", 1), ("of an earlier run", 1)] {
        let (fixture, rows) = (UploadFixture::new(), Rows::default());
        let mut session = fixture.session();
        let request = create(&session);
        session.begin(&request, &rows).await.unwrap();
        match way {
            "put" => drop(put(&session, 1, b"0123456789").await.unwrap()),
            "written" => drop(session.part_writer()),
            "of an earlier run" => session = fixture.session().recorded(session.open().cloned()),
            _ => {}
        }

        session.abort(true).await;

        assert_eq!(fixture.store.count("ListParts"), looks, "{way}");
        assert_eq!(fixture.open_uploads().await, 0, "{way}");
    }
}

#[tokio::test]
async fn an_abort_waits_for_parts_that_were_sent() {
    let (fixture, rows, latch) = (UploadFixture::new(), Rows::default(), Latch::default());
    let mut session = fixture.session();
    let request = create(&session);
    session.begin(&request, &rows).await.unwrap();
    fixture.store.rule(Rule::once("UploadPart", Fault::Hold(latch.clone())));
    // Given up while it is on its way.
    tokio::select! {
        ended = put(&session, 1, b"0123456789") => panic!("{ended:?} while it is held"),
        () = latch.reached() => {}
    }

    let aborting = tokio::spawn(async move { session.abort(true).await });
    while fixture.store.count("AbortMultipartUpload") == 0 {
        tokio::task::yield_now().await;
    }
    assert!(!aborting.is_finished());
    latch.open();
    aborting.await.unwrap();

    assert_eq!(fixture.open_uploads().await, 0);
    assert_eq!(fixture.store.count("AbortMultipartUpload"), 2, "once at once, and once after the part");
}

#[tokio::test(start_paused = true)]
async fn an_abort_after_a_cancel_does_not_wait_for_a_service_that_does_not_answer() {
    for operation in ["UploadPart", "CreateMultipartUpload"] {
        let (fixture, rows, cancel) = (UploadFixture::new(), Rows::default(), CancellationToken::new());
        let mut session = fixture.session_until(cancel.clone());
        let request = create(&session);
        if operation == "UploadPart" {
            session.begin(&request, &rows).await.unwrap();
        }
        let latch = Latch::default();
        fixture.store.rule(Rule::once(operation, Fault::Hold(latch.clone())));
        let sent = async {
            if operation == "UploadPart" {
                put(&session, 1, b"0123456789").await.map(|_| ())
            } else {
                session.begin(&request, &rows).await
            }
        };
        tokio::select! {
            ended = sent => panic!("{ended:?} while it is held"),
            () = latch.reached() => {}
        }
        let began = tokio::time::Instant::now();
        cancel.cancel();

        session.abort(true).await;

        assert!(began.elapsed() < Duration::from_secs(5), "{operation}: {:?}", began.elapsed());
        assert_eq!(fixture.open_uploads().await, 0, "{operation}");
    }
}

#[tokio::test]
async fn a_cancel_leaves_the_upload_to_a_later_session() {
    let (fixture, rows, cancel, latch) =
        (UploadFixture::new(), Rows::default(), CancellationToken::new(), Latch::default());
    let mut session = fixture.session_until(cancel.clone());
    let request = create(&session);
    session.begin(&request, &rows).await.unwrap();
    fixture.store.rule(Rule::once("UploadPart", Fault::HoldReply(latch.clone())));
    tokio::select! {
        ended = put(&session, 1, b"0123456789") => panic!("{ended:?} while its answer is held"),
        () = latch.reached() => {}
    }
    fixture.store.rule(Rule::always("AbortMultipartUpload", Fault::Fail("AccessDenied", 403)));
    cancel.cancel();

    session.abort(false).await;

    assert_eq!(session.open(), rows.recorded().as_ref(), "still recorded");
    fixture.store.clear_rules();
    upload(&fixture, &rows).await.unwrap();
    assert_eq!(fixture.object().await.as_deref(), Some(BYTES));
    assert_eq!(rows.history.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_object_of_unknown_size_is_uploaded_in_growing_parts() {
    let (fixture, rows) = (UploadFixture::new(), Rows::default());
    let mut session = fixture.session();
    let request = session.request();
    session.begin(&request, &rows).await.unwrap();
    let (mut parts, mut rest) = (Vec::new(), BYTES);
    for number in 1.. {
        let size = usize::try_from(growing_part_size(number, PART)).unwrap().min(rest.len());
        let piece;
        (piece, rest) = rest.split_at(size);
        parts.push(put(&session, number, piece).await.unwrap());
        if rest.is_empty() {
            break;
        }
    }

    let completed = session.complete(CompleteUpload { parts, ..CompleteUpload::default() }).await.unwrap();

    assert!(matches!(completed, Completion::Object(_)));
    assert_eq!(fixture.object().await.as_deref(), Some(BYTES));
    assert_eq!(fixture.budget.stats().in_flight, 0, "a request permit leaked");
}
