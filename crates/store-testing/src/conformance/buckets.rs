//! Buckets and versions, of stores that offer them: the role [`BucketService`].

use seqferry_store::{BucketService, ObjectRef, Removal, VersionsRequest};

use super::{Bench, refused_job_wide, sorted};

/// A page of versions below the check's own prefix.
fn below(bench: &Bench<'_>) -> VersionsRequest {
    VersionsRequest { bucket: bench.bucket.to_owned(), prefix: bench.prefix.clone(), after: None }
}

async fn names(service: &dyn BucketService) -> Vec<String> {
    let listed = service.list_buckets().await.expect("the buckets");
    listed.into_iter().map(|bucket| bucket.name).collect()
}

pub(super) async fn the_bucket_is_listed(bench: &Bench<'_>) {
    let Some(service) = bench.store.bucket_service() else { return };

    assert!(names(service).await.iter().any(|name| name == bench.bucket));
}

pub(super) async fn a_bucket_is_made_and_removed(bench: &Bench<'_>) {
    let Some(service) = bench.store.bucket_service() else { return };
    let made = format!("{}-made", bench.bucket);

    service.create_bucket(&made).await.expect("a new bucket");
    assert!(names(service).await.contains(&made));
    bench.store.head_bucket(&made).await.expect("it is there");

    service.delete_bucket(&made).await.expect("it is empty");
    assert!(!names(service).await.contains(&made));
}

pub(super) async fn versions_are_those_of_the_objects(bench: &Bench<'_>) {
    let Some(service) = bench.store.bucket_service() else { return };
    let keys: Vec<String> = ["a", "b/1", "b c+d", "\u{e9}"].map(|name| bench.key(name)).into();
    for key in &keys {
        bench.put(key).await;
    }

    let page = service.list_versions(&below(bench)).await.expect("a page");

    assert_eq!(page.next, None);
    for version in &page.versions {
        let object = &version.object;
        let meta = bench.store.head(ObjectRef::new(bench.bucket, &object.key), None).await.expect("listed, so there");
        assert_eq!((object.size, &object.etag), (meta.size, &meta.etag), "{version:?}");
        // Versions are not kept in this bucket.
        assert_eq!(version.version_id, "null", "{version:?}");
        assert!(version.is_latest && !version.is_delete_marker, "{version:?}");
    }
    assert_eq!(sorted(page.versions.into_iter().map(|version| version.object.key).collect()), sorted(keys));
}

pub(super) async fn many_objects_are_removed_by_one_request(bench: &Bench<'_>) {
    let Some(service) = bench.store.bucket_service() else { return };
    let [kept, first, second] = ["kept", "b c+d", "a/\u{e9}&<1>"].map(|name| bench.key(name));
    for key in [&kept, &first, &second] {
        bench.put(key).await;
    }

    let wanted = [second, bench.key("absent"), first].map(|key| Removal { key, ..Removal::default() });
    let answers = service.delete_many(bench.bucket, &wanted).await.expect("the answers");

    assert_eq!(answers.len(), wanted.len());
    for (answer, wanted) in answers.iter().zip(&wanted) {
        let removed = answer.as_ref().and_then(|answer| answer.as_ref().ok());
        // Absent ones count as removed. Versions are not kept, so that there is no marker.
        assert_eq!(removed.map(|removed| &removed.marker), Some(&None), "{wanted:?}: {answer:?}");
    }
    assert_eq!(bench.keys().await, [kept]);
}

pub(super) async fn addresses_are_signed(bench: &Bench<'_>) {
    let Some(service) = bench.store.bucket_service() else { return };

    for put in [false, true] {
        let object = ObjectRef::new(bench.bucket, "a b");
        let address = service.presign(object, put, 60).await.expect("an address");

        assert!(address.starts_with("http") && address.contains("a%20b"), "{address}");
        assert!(address.contains("X-Amz-Expires=60") && address.contains("X-Amz-Signature="), "{address}");
    }
}

pub(super) async fn absent_buckets_have_no_versions(bench: &Bench<'_>) {
    let Some(service) = bench.store.bucket_service() else { return };
    let bucket = format!("{}-absent", bench.bucket);

    refused_job_wide(service.list_versions(&VersionsRequest { bucket, ..below(bench) }).await, "list versions");
}
