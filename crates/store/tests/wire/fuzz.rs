//! Tests of whole requests with mutations of recorded answers: each ends with a result or a classified error, and none
//! gets the answer to another request.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use seqferry_store::prelude::*;
use seqferry_store::{
    BucketService, CreateUpload, ListRequest, ObjectRef, Removal, S3Store, StoreError, UploadRef, VersionsRequest,
};

use crate::server::{Reply, ReplyEnding, Wire};
use crate::{WriteOperation, get, store_at};

#[path = "../../fuzz/mutate.rs"]
mod mutate;

use mutate::{RecordedAnswer, mutated, mutations};

static CORPUS: LazyLock<Vec<RecordedAnswer>> = LazyLock::new(mutate::corpus);

/// Operations whose answers are documents, by the names of their recorded answers.
const OPERATIONS: [&str; 10] = [
    "list",
    "list-parts",
    "list-uploads",
    "list-versions",
    "list-buckets",
    "create",
    "complete",
    "copy",
    "tags",
    "delete-many",
];

/// Time limit for a complete answer. A request that takes longer waits for bytes that never arrive, and ends at a time
/// limit of its own.
const WHOLE_WITHIN: Duration = Duration::from_millis(200);

/// Limit of the longest request here: the attempt and connection limits of the store are shorter.
const ENDS_WITHIN: Duration = Duration::from_mins(30);

/// Makes the request. Returns how many entries its answer has.
async fn ask(store: &S3Store, operation: &str) -> Result<usize, StoreError> {
    match operation {
        "list" => {
            let request = ListRequest { bucket: "bucket".to_owned(), ..ListRequest::default() };
            store.list(&request).await.map(|page| page.objects.len())
        }
        "list-parts" => {
            store.list_parts(UploadRef::new("bucket", "key", "upload"), None).await.map(|page| page.parts.len())
        }
        "list-uploads" => store.list_uploads("bucket", "").await.map(|uploads| uploads.len()),
        "create" => {
            let upload = CreateUpload { bucket: "bucket".to_owned(), key: "key".to_owned(), ..CreateUpload::default() };
            store.create_upload(&upload).await.map(|_| 1)
        }
        "complete" => WriteOperation::Complete.send(store).await.map(|_| 1),
        "copy" => WriteOperation::Copy.send(store).await.map(|_| 1),
        "list-versions" => {
            let request = VersionsRequest { bucket: "bucket".to_owned(), ..VersionsRequest::default() };
            service(store).list_versions(&request).await.map(|page| page.versions.len())
        }
        "list-buckets" => service(store).list_buckets().await.map(|buckets| buckets.len()),
        "delete-many" => {
            let objects = ["copy", "dir/a +b.txt"].map(|key| Removal { key: key.to_owned(), ..Removal::default() });
            let removed = service(store).delete_many("bucket", &objects).await?;
            assert_eq!(removed.len(), objects.len(), "an answer for each object, or none");
            Ok(removed.into_iter().flatten().count())
        }
        _ => store.get_tags(ObjectRef::new("bucket", "key")).await.map(|tags| tags.len()),
    }
}

fn service(store: &S3Store) -> &dyn BucketService {
    store.bucket_service().expect("S3 has buckets")
}

/// Returns the result of a request. The clock jumps to the time limits of a request that gets no more bytes. None: the
/// request never ends.
async fn end_of<T>(request: impl Future<Output = T>) -> Option<T> {
    let mut request = std::pin::pin!(request);
    if let Ok(end) = tokio::time::timeout(WHOLE_WITHIN, &mut request).await {
        return Some(end);
    }
    tokio::time::pause();
    let end = tokio::time::timeout(ENDS_WITHIN, request).await;
    tokio::time::resume();
    end.ok()
}

/// A page of a listing with one key.
fn page(key: &str) -> Reply {
    Reply::xml(&format!(
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>{key}</Key><Size>1</Size>\
         <LastModified>2026-01-01T00:00:00Z</LastModified></Contents></ListBucketResult>"
    ))
}

#[test]
fn requests_end_whatever_is_answered_and_none_gets_the_answer_to_another() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer: Arc<Mutex<Vec<u8>>> = Arc::default();
    let to_send = Arc::clone(&answer);
    let server = Wire::serve(move |request, _| match request.path() {
        "/other" | "/other/" => page("other"),
        "/bucket/second" => Reply::new(200, &[("etag", "\"e\"")], "second"),
        _ => Reply::of_bytes(&to_send.lock().unwrap_or_else(PoisonError::into_inner), ReplyEnding::Next),
    });
    let store = runtime.block_on(store_at(&server.url()));
    let cases = ProptestConfig::default().cases / 4;
    let strategy = (mutations(), proptest::sample::select(OPERATIONS.to_vec()));

    TestRunner::new(ProptestConfig::with_cases(cases))
        .run(&strategy, |((index, changes), operation)| {
            let ending = format!("-{operation}");
            let fitting: Vec<&RecordedAnswer> =
                CORPUS.iter().filter(|recorded| recorded.name.ends_with(&ending)).collect();
            let recorded = fitting[index.index(fitting.len())];
            let bytes = mutated(&recorded.bytes, &changes, &CORPUS);
            answer.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&bytes);
            runtime.block_on(async {
                match end_of(ask(&store, operation)).await {
                    Some(Ok(entries)) => prop_assert!(entries <= bytes.len()),
                    Some(Err(error)) => prop_assert!(!error.code.is_empty()),
                    None => prop_assert!(false, "{} does not end within {:?}", operation, ENDS_WITHIN),
                }
                let other = ListRequest { bucket: "other".to_owned(), ..ListRequest::default() };
                let listed = store.list(&other).await.unwrap();
                prop_assert_eq!(listed.objects[0].key.as_str(), "other");
                prop_assert_eq!(get(&store, "second").await.unwrap(), "second");
                Ok(())
            })
        })
        .unwrap();
}

#[tokio::test]
async fn a_document_without_an_end_is_given_up() {
    let endless = "<ListBucketResult>".to_owned() + &"<Contents><Key>k</Key></Contents>".repeat((33 << 20) / 33);
    let server = Wire::always(Reply::xml(&endless));

    let error = ask(&store_at(&server.url()).await, "list").await.unwrap_err();

    assert!(error.message.contains("the limit of its length"), "{error:?}");
}

#[tokio::test]
async fn uploads_whose_markers_go_in_a_circle_are_not_listed_for_ever() {
    let server = Wire::serve(|_, before| {
        let marker = before % 2;
        Reply::xml(&format!(
            "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>{marker}</NextKeyMarker>\
             <NextUploadIdMarker>u</NextUploadIdMarker></ListMultipartUploadsResult>"
        ))
    });

    let error = ask(&store_at(&server.url()).await, "list-uploads").await.unwrap_err();

    assert!(error.message.contains("has no end"), "{error:?}");
}
