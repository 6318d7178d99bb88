//! Checks of how failures are reported.

use bytes::Bytes;

use super::{Bench, refused, refused_job_wide};
use crate::ObjectWriteExt as _;
use seqferry_store::error::{ErrorClass, Scope};
use seqferry_store::{Attributes, CopyTarget, CreateUpload, ListRequest, ObjectRef, PinnedObject, Range, UploadRef};

pub(super) async fn absent_keys_are_not_found(bench: &Bench<'_>) {
    let (store, bucket, absent) = (bench.store, bench.bucket, bench.key("absent"));
    let (there, gone) = (bench.key("there"), ErrorClass::NotFound);
    bench.put(&there).await;
    let id = store
        .create_upload(&CreateUpload { bucket: bucket.to_owned(), key: there.clone(), ..CreateUpload::default() })
        .await
        .expect("created");
    let source = bench.source(&absent);
    let range = Range { first: 0, last: 9 };

    let errors = [
        refused(bench.read(&source, None).await, gone, "get"),
        refused(bench.read(&source, Some(range)).await, gone, "get a range"),
        refused(store.copy(&source, CopyTarget::new(bucket, &there)).await, gone, "copy"),
        refused(store.copy_part(&source, range, UploadRef::new(bucket, &there, &id), 1).await, gone, "copy a part"),
        refused(store.get_tags(ObjectRef::new(bucket, &absent)).await, gone, "get tags"),
        refused(store.put_tags(ObjectRef::new(bucket, &absent), &[]).await, gone, "put tags"),
    ];
    for error in errors {
        assert_eq!((error.code.as_str(), error.status), ("NoSuchKey", bench.status(404)), "{error:?}");
        assert!(error.key.is_some(), "{error:?}");
    }
    // HEAD has no body that could hold a code.
    let error = refused(store.head(ObjectRef::new(bucket, &absent), None).await, gone, "head");
    assert_eq!((error.status, error.operation, error.key), (bench.status(404), "HeadObject", Some(absent)));
    store.abort_upload(UploadRef::new(bucket, &there, &id)).await.expect("aborted");
}

pub(super) async fn absent_buckets_stop_the_job(bench: &Bench<'_>) {
    let (store, bucket) = (bench.store, format!("{}-absent", bench.bucket));
    let there = bench.key("there");
    bench.put(&there).await;
    let (key, body) = ("key", Bytes::from_static(b"body"));
    let source = PinnedObject { bucket: bucket.clone(), ..bench.source(key) };
    let list = ListRequest { bucket: bucket.clone(), ..ListRequest::default() };
    let create = CreateUpload { bucket: bucket.clone(), key: key.to_owned(), ..CreateUpload::default() };

    let errors = [
        refused_job_wide(store.head_bucket(&bucket).await, "head the bucket"),
        refused_job_wide(store.list(&list).await, "list"),
        refused_job_wide(bench.read(&source, None).await, "get"),
        refused_job_wide(store.put(&bucket, key, body, &Attributes::default()).await, "put"),
        refused_job_wide(store.copy(&source, CopyTarget::new(bench.bucket, key)).await, "copy from it"),
        refused_job_wide(store.create_upload(&create).await, "create an upload"),
        refused_job_wide(store.list_uploads(&bucket, "").await, "list uploads"),
    ];
    let to_it = store.copy(&bench.source(&there), CopyTarget::new(&bucket, key)).await.expect_err("a copy to it");
    for error in errors.into_iter().chain(bench.quirks.copy_reports_absent_bucket.then_some(to_it)) {
        assert_eq!(error.scope, Scope::Job, "{error:?}");
        assert_eq!((error.code.as_str(), error.status), ("NoSuchBucket", Some(404)), "{error:?}");
    }
}

pub(super) async fn a_bucket_that_is_there_is_found(bench: &Bench<'_>) {
    bench.store.head_bucket(bench.bucket).await.expect("the bucket is there");
}

pub(super) async fn credentials_can_be_refreshed(bench: &Bench<'_>) {
    bench.store.refresh_credentials().await.expect("refreshed");

    bench.store.head_bucket(bench.bucket).await.expect("and still good");
}
