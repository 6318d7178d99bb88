//! The conformance suite of [`ObjectStore`]: checks for any implementation or wrapper.
//!
//! [`conformance`] runs all checks against one bucket and then names those that failed. The caller describes legitimate
//! differences of a service in [`ServiceQuirks`], and the checks hold the service to that. Each check works below a
//! prefix of its own.

mod buckets;
mod copying;
mod failing;
mod listing;
mod objects;
mod uploads;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};
use futures::{StreamExt as _, TryStreamExt as _};
use md5::{Digest as _, Md5};
use seqferry_store::checksum::hex;
use seqferry_store::{
    Attributes, Body, ErrorClass, ListRequest, ListedObject, ObjectReadExt as _, ObjectStore, PinnedObject, Range,
    Result, Scope, StoreError,
};

use crate::ObjectWriteExt as _;

/// Checksum in the answer to a part copy into an upload that was created with an algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopiedPartChecksums {
    /// The checksum of the part.
    Right,
    /// No checksum.
    Missing,
    /// A wrong checksum: such uploads are best created without an algorithm.
    Wrong,
}

/// Differences of a service from AWS, and properties of it that a test can rely on. The default is AWS.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each with its own name")]
pub struct ServiceQuirks {
    /// Name of the service in messages.
    pub name: &'static str,
    /// Unusual keys that the service keeps unchanged; short enough for a prefix before them.
    pub keys: Vec<String>,
    /// True when listings follow the order of the keys' bytes. False: they are complete, and in the same order each
    /// time.
    pub sorted: bool,
    /// A storage class besides the default that the service keeps.
    pub storage_class: Option<&'static str>,
    /// True when `x-amz-website-redirect-location` is kept.
    pub keeps_website_redirect: bool,
    /// True when a copy of a multipart object has the `ETag` of an object written in one request.
    pub copy_is_one_part: bool,
    /// True when metadata with an empty value is kept.
    pub keeps_empty_metadata: bool,
    /// True when a copy without a storage class gets that of its source.
    pub copies_storage_class: bool,
    /// Checksum in the answer to a part copy.
    pub copied_part_checksums: CopiedPartChecksums,
    /// True when listed parts have the checksum that the upload was created with.
    pub listed_parts_have_checksums: bool,
    /// True when listed uploads may have keys that XML cannot hold.
    pub encodes_listed_uploads: bool,
    /// True when a listing that starts after a key includes the keys below it, as if it were a folder.
    pub starts_after_parents: bool,
    /// True when a replaced part is not listed any more.
    pub forgets_replaced_parts: bool,
    /// True when aborting a missing upload is an error.
    pub abort_reports_absence: bool,
    /// True when a copy to a missing bucket fails with that reason.
    pub copy_reports_absent_bucket: bool,
    /// True when completion with a wrong size is refused.
    pub checks_size: bool,
    /// True when completion with a wrong checksum over the full object is refused.
    pub checks_whole: bool,
    /// Least number of bytes of a part, except the last of an upload.
    pub minimum_part: usize,
    /// Names of checks of features that the service lacks.
    pub skipped_checks: &'static [&'static str],
    /// True when an `ETag` is a digest of the bytes.
    pub digests: bool,
    /// True when errors have an HTTP status.
    pub statuses: bool,
    /// Seed of the objects' bytes; report it when a run fails.
    pub seed: u64,
}

impl Default for ServiceQuirks {
    fn default() -> Self {
        Self {
            name: "a store",
            keys: Vec::new(),
            sorted: true,
            storage_class: Some("STANDARD_IA"),
            keeps_website_redirect: true,
            copy_is_one_part: true,
            keeps_empty_metadata: true,
            copies_storage_class: false,
            copied_part_checksums: CopiedPartChecksums::Right,
            listed_parts_have_checksums: true,
            encodes_listed_uploads: true,
            starts_after_parents: true,
            forgets_replaced_parts: true,
            abort_reports_absence: true,
            copy_reports_absent_bucket: true,
            checks_size: true,
            checks_whole: true,
            minimum_part: 5 << 20,
            skipped_checks: &[],
            digests: true,
            statuses: true,
            seed: 1,
        }
    }
}

type Check = for<'a> fn(&'a Bench<'a>) -> BoxFuture<'a, ()>;

macro_rules! checks {
    ($($file:ident: $($name:ident),+ $(,)?;)+) => {
        &[$($((concat!(stringify!($file), "::", stringify!($name)), |bench| $file::$name(bench).boxed())),+),+]
    };
}

/// Every check with its name.
const CHECKS: &[(&str, Check)] = checks! {
    objects: what_is_put_is_read_back, a_write_that_is_to_replace_nothing_replaces_nothing,
        a_write_that_is_to_replace_one_object_replaces_no_other, head_returns_facts_of_the_object, attributes_are_kept, ranges_are_read, ranges_outside_are_refused,
        reads_are_pinned, an_overwrite_replaces_all, deletion_is_repeatable, tags_are_replaced, odd_keys_are_kept;
    listing: pages_hold_every_key_once, prefixes_select, delimiters_group, listing_starts_after_a_key, listed_facts_are_those_of_head,
        nothing_is_listed_of_nothing, odd_keys_are_listed_as_they_are;
    copying: attributes_and_tags_travel, copies_are_pinned, sources_are_encoded, storage_classes_are_set,
        a_copy_replaces_what_was_there, a_copy_of_parts_has_their_bytes, a_checksum_can_be_requested, empty_objects_are_copied;
    uploads: parts_are_copied, parts_are_sent, a_completion_that_is_to_replace_nothing_replaces_nothing,
        a_completion_that_is_to_replace_one_object_replaces_no_other, parts_come_in_pieces, what_was_requested_at_creation_is_kept, parts_are_listed_by_number,
        a_part_sent_again_replaces_the_first, the_old_object_stays_until_completion, part_copies_are_pinned, small_parts_are_refused,
        unknown_parts_are_refused, a_wrong_size_is_refused, a_wrong_whole_checksum_is_refused, uploads_are_listed_until_they_end,
        an_aborted_upload_is_gone, odd_keys_are_uploaded;
    failing: absent_keys_are_not_found, absent_buckets_stop_the_job, a_bucket_that_is_there_is_found, credentials_can_be_refreshed;
    buckets: the_bucket_is_listed, a_bucket_is_made_and_removed, versions_are_those_of_the_objects,
        many_objects_are_removed_by_one_request, addresses_are_signed, absent_buckets_have_no_versions;
};

/// Runs every check against a store, in a bucket without other content of value.
///
/// # Panics
/// Panics when checks fail; the message names them, and the output above it describes the failures.
pub async fn conformance(store: &dyn ObjectStore, bucket: &str, quirks: &ServiceQuirks) {
    let mut failed = Vec::new();
    let unknown: Vec<_> =
        quirks.skipped_checks.iter().filter(|name| !CHECKS.iter().any(|(known, _)| known == *name)).collect();
    assert!(unknown.is_empty(), "there are no such checks: {unknown:?}");
    for (number, (name, check)) in (1..).zip(CHECKS) {
        if quirks.skipped_checks.contains(name) {
            continue;
        }
        // The prefix is short, so that long keys fit behind it.
        let bench = Bench { store, bucket, quirks, prefix: format!("check-{number}/") };
        if AssertUnwindSafe(check(&bench)).catch_unwind().await.is_err() {
            failed.push(*name);
        }
    }
    assert!(failed.is_empty(), "{} (seed {}) fails {failed:#?}", quirks.name, quirks.seed);
}

/// Fixture of one check: store, bucket, quirks and prefix.
struct Bench<'a> {
    store: &'a dyn ObjectStore,
    bucket: &'a str,
    quirks: &'a ServiceQuirks,
    /// Prefix of the check's own keys.
    prefix: String,
}

impl Bench<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The object as it is now, unpinned.
    fn source(&self, key: &str) -> PinnedObject {
        let bucket = self.bucket.to_owned();
        PinnedObject { bucket, key: key.to_owned(), version_id: None, if_match: None, size: 0 }
    }

    /// Bytes that depend on the seed and on their purpose.
    fn bytes(&self, what: &str, size: usize) -> Bytes {
        let salt = what.bytes().fold(self.quirks.seed, |salt, byte| salt.wrapping_mul(31).wrapping_add(byte.into()));
        let mut bytes = vec![0; size];
        fastrand::Rng::with_seed(salt).fill(&mut bytes);
        bytes.into()
    }

    /// Write a small plain object; returns its bytes.
    async fn put(&self, key: &str) -> Bytes {
        let body = self.bytes(key, 100);
        self.put_bytes(key, body.clone()).await;
        body
    }

    async fn put_bytes(&self, key: &str, body: Bytes) {
        let put = self.store.put(self.bucket, key, body, &Attributes::default()).await;
        put.unwrap_or_else(|error| panic!("put {key:?}: {error}"));
    }

    async fn read(&self, source: &PinnedObject, range: Option<Range>) -> Result<Bytes> {
        let chunks: Vec<Bytes> = self.store.get(source, range).await?.into_stream().try_collect().await?;
        Ok(chunks.concat().into())
    }

    async fn get(&self, key: &str) -> Bytes {
        self.read(&self.source(key), None).await.unwrap_or_else(|error| panic!("get {key:?}: {error}"))
    }

    /// Returns all entries and groups of a listing, in their order.
    async fn list_all(&self, mut request: ListRequest) -> (Vec<ListedObject>, Vec<String>) {
        request.bucket = self.bucket.to_owned();
        let (mut objects, mut groups) = (Vec::new(), Vec::new());
        for _ in 0..1000 {
            let page = self.store.list(&request).await.expect("a page");
            if let Some(most) = request.max_keys.and_then(|most| usize::try_from(most).ok()) {
                assert!(
                    page.objects.len() + page.common_prefixes.len() <= most,
                    "a page holds at most {most}: {page:?}"
                );
            }
            objects.extend(page.objects);
            groups.extend(page.common_prefixes);
            request.continuation = page.continuation;
            if request.continuation.is_none() {
                return (objects, groups);
            }
        }
        panic!("the listing does not end");
    }

    /// Checks an `ETag` against that of the bytes, if the store makes it of them.
    fn check_etag(&self, etag: &str, of_bytes: &str, what: &str) {
        assert!(!etag.is_empty(), "{what}");
        if self.quirks.digests {
            assert_eq!(etag, of_bytes, "{what}");
        }
    }

    /// The expected status of an error.
    fn status(&self, status: u16) -> Option<u16> {
        self.quirks.statuses.then_some(status)
    }

    /// Keys below the check's own prefix, in the service's order.
    async fn keys(&self) -> Vec<String> {
        let request = ListRequest { prefix: self.prefix.clone(), ..ListRequest::default() };
        self.list_all(request).await.0.into_iter().map(|object| object.key).collect()
    }
}

fn md5_of(bytes: &[u8]) -> String {
    hex(&Md5::digest(bytes))
}

/// Returns the `ETag` of an object made of these parts.
fn composite_etag(parts: &[Bytes]) -> String {
    let digests: Vec<u8> = parts.iter().flat_map(|part| Md5::digest(part).to_vec()).collect();
    format!("{}-{}", md5_of(&digests), parts.len())
}

/// Returns all attributes that a writer can set and the service keeps.
fn attributes(quirks: &ServiceQuirks) -> Attributes {
    let mut attributes = Attributes {
        content_type: Some("application/gzip".to_owned()),
        content_encoding: Some("gzip".to_owned()),
        content_language: Some("de, en".to_owned()),
        content_disposition: Some("attachment; filename=\"a b.gz\"".to_owned()),
        cache_control: Some("max-age=60, no-transform".to_owned()),
        expires: Some("Thu, 01 Dec 2033 16:00:00 GMT".to_owned()),
        website_redirect: quirks.keeps_website_redirect.then(|| "/elsewhere".to_owned()),
        metadata: BTreeMap::from([
            ("sample".to_owned(), "S1 + 50%".to_owned()),
            ("run-id".to_owned(), "42".to_owned()),
        ]),
    };
    if quirks.keeps_empty_metadata {
        attributes.metadata.insert("empty".to_owned(), String::new());
    }
    attributes
}

/// Returns tags with every kind of character that AWS allows.
fn tags() -> Vec<(String, String)> {
    let tags = [("project", "cohort 7"), ("path", "a/b=c:d+e-f_g@h.i"), ("empty", ""), ("\u{fc}ber", "caf\u{e9}")];
    tags.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort();
    values
}

fn refused<T>(answer: Result<T>, class: ErrorClass, what: &str) -> StoreError {
    match answer {
        Ok(_) => panic!("{what} was not refused"),
        Err(error) => {
            assert_eq!(error.class, class, "{what}: {error:?}");
            error
        }
    }
}

/// Expects an error that applies to every object of a job.
fn refused_job_wide<T>(answer: Result<T>, what: &str) -> StoreError {
    let error = refused(answer, ErrorClass::Person, what);
    assert_eq!(error.scope, Scope::Job, "{what}: {error:?}");
    error
}

async fn collect(body: Body) -> Vec<Result<Bytes>> {
    body.into_stream().collect().await
}
