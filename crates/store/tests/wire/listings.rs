//! Tests of listings that contradict themselves or their request: none counts as complete.

use seqferry_store::error::classify::code;
use seqferry_store::prelude::*;
use seqferry_store::{ErrorClass, ListPage, ListRequest, Result, StoreError, UploadRef, VersionsRequest};

use crate::server::{Reply, Wire};
use crate::store_at;

/// A page of `ListObjectsV2` for the prefix `run/` after `run/a`, as AWS states it.
const OBJECTS: &str = "<ListBucketResult><Name>bucket</Name><Prefix>run/</Prefix><StartAfter>run/a</StartAfter>\
    <KeyCount>3</KeyCount><MaxKeys>1000</MaxKeys><Delimiter>/</Delimiter><EncodingType>url</EncodingType>\
    <IsTruncated>false</IsTruncated>\
    <Contents><Key>run/b+c</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>\
    <Contents><Key>run/d</Key><Size>2</Size><LastModified>2026-01-02T00:00:00Z</LastModified></Contents>\
    <CommonPrefixes><Prefix>run/e/</Prefix></CommonPrefixes></ListBucketResult>";

const VERSIONS: &str = "<ListVersionsResult><Name>bucket</Name><Prefix>run/</Prefix><KeyMarker>run/a</KeyMarker>\
    <VersionIdMarker>v1</VersionIdMarker><MaxKeys>1000</MaxKeys><EncodingType>url</EncodingType>\
    <IsTruncated>false</IsTruncated>\
    <Version><Key>run/b</Key><VersionId>v2</VersionId><Size>1</Size></Version>\
    <DeleteMarker><Key>run/c</Key><VersionId>v3</VersionId></DeleteMarker></ListVersionsResult>";

const UPLOADS: &str = "<ListMultipartUploadsResult><Bucket>bucket</Bucket><KeyMarker></KeyMarker>\
    <UploadIdMarker></UploadIdMarker><NextKeyMarker>run/b</NextKeyMarker><NextUploadIdMarker>u1</NextUploadIdMarker>\
    <Prefix>run/</Prefix><MaxUploads>1000</MaxUploads><IsTruncated>false</IsTruncated>\
    <Upload><Key>run/b</Key><UploadId>u1</UploadId></Upload></ListMultipartUploadsResult>";

const PARTS: &str = "<ListPartsResult><Bucket>bucket</Bucket><Key>run/b</Key><UploadId>u1</UploadId>\
    <PartNumberMarker>1</PartNumberMarker><NextPartNumberMarker>3</NextPartNumberMarker><MaxParts>1000</MaxParts>\
    <IsTruncated>false</IsTruncated><Part><PartNumber>2</PartNumber><ETag>\"e2\"</ETag><Size>5</Size></Part>\
    <Part><PartNumber>3</PartNumber><ETag>\"e3\"</ETag><Size>4</Size></Part></ListPartsResult>";

async fn objects(document: &str) -> Result<ListPage> {
    let server = Wire::always(Reply::xml(document));
    let request = ListRequest {
        bucket: "bucket".to_owned(),
        prefix: "run/".to_owned(),
        delimiter: Some("/".to_owned()),
        start_after: Some("run/a".to_owned()),
        ..ListRequest::default()
    };
    store_at(&server.url()).await.list(&request).await
}

async fn versions(document: &str) -> Result<usize> {
    let server = Wire::always(Reply::xml(document));
    let after = Some(("run/a".to_owned(), Some("v1".to_owned())));
    let request = VersionsRequest { bucket: "bucket".to_owned(), prefix: "run/".to_owned(), after };
    let store = store_at(&server.url()).await;
    Ok(store.bucket_service().expect("S3 has versions").list_versions(&request).await?.versions.len())
}

async fn uploads(document: &str) -> Result<usize> {
    let server = Wire::always(Reply::xml(document));
    Ok(store_at(&server.url()).await.list_uploads("bucket", "run/").await?.len())
}

async fn parts(document: &str) -> Result<usize> {
    let server = Wire::always(Reply::xml(document));
    let upload = UploadRef::new("bucket", "run/b", "u1");
    Ok(store_at(&server.url()).await.list_parts(upload, Some(1)).await?.parts.len())
}

/// Each document with one of these replacements.
fn changed<'a>(document: &'a str, changes: &'a [(&'a str, &'a str)]) -> impl Iterator<Item = String> + 'a {
    changes.iter().map(move |(from, to)| {
        assert!(document.contains(from), "{from}");
        document.replacen(from, to, 1)
    })
}

fn assert_contradiction(error: &StoreError, document: &str) {
    assert_eq!(error.code, code::CONTRADICTORY_LISTING, "{error}\n{document}");
    assert_eq!(error.class, ErrorClass::Object, "the same page would come again");
}

#[tokio::test]
async fn listings_as_services_send_them_are_taken() {
    let page = objects(OBJECTS).await.unwrap();
    assert_eq!((page.objects.len(), page.common_prefixes.len()), (2, 1));
    assert_eq!(versions(VERSIONS).await.unwrap(), 2);
    assert_eq!(uploads(UPLOADS).await.unwrap(), 1);
    assert_eq!(parts(PARTS).await.unwrap(), 2);
    for document in changed(
        OBJECTS,
        &[
            ("<Name>bucket</Name>", ""),
            ("<Name>bucket</Name>", "<Name></Name>"),
            ("<Prefix>run/</Prefix>", "<Prefix>run%2F</Prefix>"),
            ("<Prefix>run/</Prefix>", ""),
            ("<StartAfter>run/a</StartAfter>", "<StartAfter>run%2Fa</StartAfter>"),
            ("<StartAfter>run/a</StartAfter>", ""),
            ("<StartAfter>run/a</StartAfter>", "<ContinuationToken>run/a</ContinuationToken>"),
            ("<KeyCount>3</KeyCount>", "<KeyCount>2</KeyCount>"),
            ("<KeyCount>3</KeyCount>", ""),
            ("<MaxKeys>1000</MaxKeys>", "<MaxKeys>3</MaxKeys>"),
            ("<Delimiter>/</Delimiter>", "<Delimiter>%2F</Delimiter>"),
            ("<EncodingType>url</EncodingType>", ""),
            // Keys in another order.
            ("run/b+c", "run/x"),
        ],
    ) {
        assert_eq!(objects(&document).await.unwrap().objects.len(), 2, "{document}");
    }
}

#[tokio::test]
async fn a_page_of_objects_that_contradicts_itself_is_an_error() {
    for document in changed(
        OBJECTS,
        &[
            ("<Name>bucket</Name>", "<Name>other</Name>"),
            ("<Prefix>run/</Prefix>", "<Prefix>other/</Prefix>"),
            ("<Prefix>run/</Prefix>", "<Prefix>run</Prefix>"),
            ("<StartAfter>run/a</StartAfter>", "<StartAfter>run/z</StartAfter>"),
            ("<StartAfter>run/a</StartAfter>", "<ContinuationToken>t</ContinuationToken>"),
            ("<KeyCount>3</KeyCount>", "<KeyCount>4</KeyCount>"),
            ("<KeyCount>3</KeyCount>", "<KeyCount>1</KeyCount>"),
            ("<KeyCount>3</KeyCount>", "<KeyCount>-3</KeyCount>"),
            ("<MaxKeys>1000</MaxKeys>", "<MaxKeys>1</MaxKeys>"),
            ("<MaxKeys>1000</MaxKeys>", "<MaxKeys>0</MaxKeys>"),
            ("<Delimiter>/</Delimiter>", "<Delimiter>-</Delimiter>"),
            ("<EncodingType>url</EncodingType>", "<EncodingType>base64</EncodingType>"),
            ("<IsTruncated>false</IsTruncated>", ""),
            (
                "<IsTruncated>false</IsTruncated>",
                "<IsTruncated>false</IsTruncated><NextContinuationToken>t</NextContinuationToken>",
            ),
            ("<IsTruncated>false</IsTruncated>", "<NextContinuationToken>t</NextContinuationToken>"),
            ("<IsTruncated>false</IsTruncated>", "<IsTruncated>true</IsTruncated>"),
            (
                "<IsTruncated>false</IsTruncated>",
                "<IsTruncated>true</IsTruncated><NextContinuationToken></NextContinuationToken>",
            ),
            ("<Key>run/d</Key>", "<Key>other/d</Key>"),
            ("<Key>run/d</Key>", "<Key></Key>"),
            ("<Key>run/d</Key>", ""),
            ("<Size>2</Size>", ""),
            ("<Size>2</Size>", "<Size>-2</Size>"),
            ("<CommonPrefixes><Prefix>run/e/", "<CommonPrefixes><Prefix>other/"),
            ("<CommonPrefixes><Prefix>run/e/", "<CommonPrefixes><Prefix>run/e"),
            // The delimiter is ignored.
            ("<Key>run/d</Key>", "<Key>run/d/e</Key>"),
            ("<Key>run/d</Key>", "<Key>run/d/e/</Key>"),
            ("<CommonPrefixes><Prefix>run/e/", "<CommonPrefixes><Prefix>run/e/f/"),
            ("<LastModified>2026-01-02T00:00:00Z</LastModified>", ""),
        ],
    ) {
        assert_contradiction(&objects(&document).await.expect_err(&document), &document);
    }
}

#[tokio::test]
async fn common_prefixes_that_were_not_asked_for_are_an_error() {
    let document = OBJECTS.replace("<Delimiter>/</Delimiter>", "").replace("<StartAfter>run/a</StartAfter>", "");
    let server = Wire::always(Reply::xml(&document));
    let request = ListRequest { bucket: "bucket".to_owned(), prefix: "run/".to_owned(), ..ListRequest::default() };

    let error = store_at(&server.url()).await.list(&request).await.expect_err("an error");

    assert_contradiction(&error, &document);
}

#[tokio::test]
async fn a_page_of_versions_that_contradicts_itself_is_an_error() {
    for document in changed(
        VERSIONS,
        &[
            ("<Name>bucket</Name>", "<Name>other</Name>"),
            ("<Prefix>run/</Prefix>", "<Prefix>other/</Prefix>"),
            ("<KeyMarker>run/a</KeyMarker>", "<KeyMarker>run/z</KeyMarker>"),
            ("<VersionIdMarker>v1</VersionIdMarker>", "<VersionIdMarker>v9</VersionIdMarker>"),
            ("<MaxKeys>1000</MaxKeys>", "<MaxKeys>1</MaxKeys>"),
            ("<EncodingType>url</EncodingType>", "<EncodingType>base64</EncodingType>"),
            ("<IsTruncated>false</IsTruncated>", ""),
            ("<IsTruncated>false</IsTruncated>", "<IsTruncated>false</IsTruncated><NextKeyMarker>k</NextKeyMarker>"),
            ("<IsTruncated>false</IsTruncated>", "<IsTruncated>true</IsTruncated>"),
            (
                "<IsTruncated>false</IsTruncated>",
                "<IsTruncated>true</IsTruncated><NextKeyMarker>run/a</NextKeyMarker>\
                 <NextVersionIdMarker>v1</NextVersionIdMarker>",
            ),
            ("<Key>run/b</Key>", "<Key>other/b</Key>"),
            ("<Key>run/c</Key>", ""),
            ("<Size>1</Size>", ""),
            ("</ListVersionsResult>", "<CommonPrefixes><Prefix>run/e/</Prefix></CommonPrefixes></ListVersionsResult>"),
        ],
    ) {
        assert_contradiction(&versions(&document).await.expect_err(&document), &document);
    }
}

#[tokio::test]
async fn a_page_of_uploads_that_contradicts_itself_is_an_error() {
    for document in changed(
        UPLOADS,
        &[
            ("<Bucket>bucket</Bucket>", "<Bucket>other</Bucket>"),
            ("<Prefix>run/</Prefix>", "<Prefix>other/</Prefix>"),
            ("<KeyMarker></KeyMarker>", "<KeyMarker>run/z</KeyMarker>"),
            ("<UploadIdMarker></UploadIdMarker>", "<UploadIdMarker>u9</UploadIdMarker>"),
            ("<MaxUploads>1000</MaxUploads>", "<MaxUploads>0</MaxUploads>"),
            ("<Key>run/b</Key>", "<Key>other/b</Key>"),
            ("<UploadId>u1</UploadId>", ""),
            (
                "<NextKeyMarker>run/b</NextKeyMarker><NextUploadIdMarker>u1</NextUploadIdMarker>\
                 <Prefix>run/</Prefix><MaxUploads>1000</MaxUploads><IsTruncated>false</IsTruncated>",
                "<IsTruncated>true</IsTruncated>",
            ),
        ],
    ) {
        assert_contradiction(&uploads(&document).await.expect_err(&document), &document);
    }
}

#[tokio::test]
async fn a_page_of_parts_that_contradicts_itself_is_an_error() {
    for document in changed(
        PARTS,
        &[
            ("<Bucket>bucket</Bucket>", "<Bucket>other</Bucket>"),
            ("<Key>run/b</Key>", "<Key>run/z</Key>"),
            ("<UploadId>u1</UploadId>", "<UploadId>u9</UploadId>"),
            ("<PartNumberMarker>1</PartNumberMarker>", "<PartNumberMarker>7</PartNumberMarker>"),
            ("<MaxParts>1000</MaxParts>", "<MaxParts>1</MaxParts>"),
            ("<PartNumber>2</PartNumber>", "<PartNumber>1</PartNumber>"),
            ("<PartNumber>2</PartNumber>", "<PartNumber>9</PartNumber>"),
            ("<PartNumber>2</PartNumber>", ""),
            ("<PartNumber>3</PartNumber>", "<PartNumber>10001</PartNumber>"),
            ("<ETag>\"e2\"</ETag>", ""),
            ("<Size>5</Size>", ""),
            (
                "<NextPartNumberMarker>3</NextPartNumberMarker><MaxParts>1000</MaxParts><IsTruncated>false</IsTruncated>",
                "<NextPartNumberMarker>2</NextPartNumberMarker><IsTruncated>true</IsTruncated>",
            ),
        ],
    ) {
        assert_contradiction(&parts(&document).await.expect_err(&document), &document);
    }
    // A next page that begins where this one began would end the list of parts without an error.
    let still = "<ListPartsResult><NextPartNumberMarker>1</NextPartNumberMarker><IsTruncated>true</IsTruncated>\
        </ListPartsResult>";
    assert_contradiction(&parts(still).await.expect_err(still), still);
    let endless = "<ListPartsResult><IsTruncated>true</IsTruncated></ListPartsResult>";
    assert_contradiction(&parts(endless).await.expect_err(endless), endless);
}

#[tokio::test]
async fn what_comes_in_place_of_a_listing_is_told() {
    for (body, words) in [
        ("", "the answer is empty"),
        (" \n", "the answer is empty"),
        ("<html><body>a captive portal</body></html>", "a page of HTML"),
        ("\n<!DOCTYPE html><title>Sign in</title>", "a page of HTML"),
        ("{\"ok\": true}", "no XML"),
    ] {
        let error = objects(body).await.expect_err("an error");

        assert_eq!(error.code, code::MALFORMED, "{body:?}: {error}");
        assert!(error.message.contains(words), "{body:?}: {error}");
    }
}

/// Pages of ten names each, by their numbers, as a service answers one request after another.
fn in_pages(pages: &[u32], page: fn(names: &[String], token: Option<u32>) -> String) -> Wire {
    let pages = pages.to_vec();
    Wire::serve(move |_, asked| {
        let first = pages[asked] * 10;
        let names: Vec<String> = (first..first + 10).map(|number| format!("run/{number:03}")).collect();
        let token = (asked + 1 < pages.len()).then_some(pages[asked] + 1);
        Reply::xml(&page(&names, token))
    })
}

/// Elements of each name, between those that tell whether there is another page.
fn document(root: &str, names: &[String], more: Option<String>, element: impl Fn(&String) -> String) -> String {
    let entries: String = names.iter().map(element).collect();
    let (is_truncated, more) = (more.is_some(), more.unwrap_or_default());
    format!("<{root}><IsTruncated>{is_truncated}</IsTruncated>{more}{entries}</{root}>")
}

fn page_of_objects(names: &[String], token: Option<u32>) -> String {
    let more = token.map(|token| format!("<NextContinuationToken>t{token}</NextContinuationToken>"));
    document("ListBucketResult", names, more, |name| {
        format!(
            "<Contents><Key>{name}</Key><Size>1</Size><ETag>e</ETag><LastModified>2026-01-01T00:00:00Z</LastModified>\
             </Contents>"
        )
    })
}

fn page_of_versions(names: &[String], token: Option<u32>) -> String {
    let more = token.map(|token| {
        format!("<NextKeyMarker>run/{token}</NextKeyMarker><NextVersionIdMarker>v{token}</NextVersionIdMarker>")
    });
    document("ListVersionsResult", names, more, |name| {
        format!("<Version><Key>{name}</Key><VersionId>v</VersionId><Size>1</Size></Version>")
    })
}

fn page_of_uploads(names: &[String], token: Option<u32>) -> String {
    let more = token.map(|token| {
        format!("<NextKeyMarker>run/{token}</NextKeyMarker><NextUploadIdMarker>u{token}</NextUploadIdMarker>")
    });
    document("ListMultipartUploadsResult", names, more, |name| {
        format!("<Upload><Key>{name}</Key><UploadId>u</UploadId></Upload>")
    })
}

fn page_of_parts(names: &[String], token: Option<u32>) -> String {
    let more = token.map(|token| format!("<NextPartNumberMarker>{}</NextPartNumberMarker>", token * 10));
    document("ListPartsResult", names, more, |name| {
        let number: u32 = name.trim_start_matches("run/").parse().expect("a number");
        format!("<Part><PartNumber>{}</PartNumber><ETag>\"e\"</ETag><Size>5</Size></Part>", number + 1)
    })
}

fn page_of_buckets(names: &[String], token: Option<u32>) -> String {
    let more = token.map(|token| format!("<ContinuationToken>t{token}</ContinuationToken>")).unwrap_or_default();
    let bucket = |name: &String| format!("<Bucket><Name>{}</Name></Bucket>", name.replace('/', "-"));
    let buckets: Vec<String> = names.iter().map(bucket).collect();
    format!("<ListAllMyBucketsResult><Buckets>{}</Buckets>{more}</ListAllMyBucketsResult>", buckets.concat())
}

/// Number of the entries of a whole listing, or the reason of the failure.
async fn walk(kind: &str, pages: &[u32]) -> Result<usize> {
    let page = match kind {
        "objects" => page_of_objects,
        "versions" => page_of_versions,
        "uploads" => page_of_uploads,
        "parts" => page_of_parts,
        _ => page_of_buckets,
    };
    let server = in_pages(pages, page);
    let store = store_at(&server.url()).await;
    let service = || store.bucket_service().expect("S3 has buckets");
    let (bucket, prefix) = ("bucket".to_owned(), "run/".to_owned());
    let mut found = 0;
    match kind {
        "objects" => {
            let mut request = ListRequest { bucket, prefix, ..ListRequest::default() };
            loop {
                let page = store.list(&request).await?;
                found += page.objects.len();
                request.continuation = page.continuation;
                if request.continuation.is_none() {
                    return Ok(found);
                }
            }
        }
        "versions" => {
            let mut request = VersionsRequest { bucket, prefix, after: None };
            loop {
                let page = service().list_versions(&request).await?;
                found += page.versions.len();
                request.after = page.next;
                if request.after.is_none() {
                    return Ok(found);
                }
            }
        }
        "uploads" => Ok(store.list_uploads("bucket", "run/").await?.len()),
        "parts" => {
            let mut after = None;
            loop {
                let page = store.list_parts(UploadRef::new("bucket", "run/b", "u1"), after).await?;
                found += page.parts.len();
                after = page.next;
                if after.is_none() {
                    return Ok(found);
                }
            }
        }
        _ => Ok(service().list_buckets().await?.len()),
    }
}

/// A cache, or a service that ignores the token, answers with another page than the one that was requested. Taken for
/// the last one, it would end a listing that lacks entries.
#[tokio::test]
async fn a_page_that_does_not_follow_the_one_before_is_an_error() {
    for kind in ["objects", "versions", "uploads", "parts", "buckets"] {
        assert_eq!(walk(kind, &[0, 1, 2]).await.unwrap(), 30, "{kind}");
        for pages in [&[0, 0][..], &[0, 1, 0], &[0, 1, 1], &[5, 1], &[1, 2, 0]] {
            let error = walk(kind, pages).await.expect_err(kind);
            assert_contradiction(&error, &format!("{kind}: {pages:?}"));
        }
    }
}
