//! Operation and object of an S3 request: read off method, path, query and headers, as S3 itself does.
//!
//! Path style only: tests and benches reach their servers by address, where clients have no other choice.

use hyper::http::request::Parts;
use hyper::{HeaderMap, Method};
use percent_encoding::percent_decode_str;

/// Operation of an S3 request, the object it addresses, and its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    pub(crate) operation: &'static str,
    pub(crate) bucket: Option<String>,
    /// Decoded; bytes that are not UTF-8 are shown as U+FFFD.
    pub(crate) key: Option<String>,
    pub(crate) part_number: Option<u32>,
    pub(crate) upload_id: Option<String>,
    /// `bucket/key` with an optional `?versionId=`, decoded.
    pub(crate) copy_source: Option<String>,
    /// The `Range` or `x-amz-copy-source-range` header as sent.
    pub(crate) range: Option<String>,
    pub(crate) access_key: Option<String>,
}

/// Every name that [`classify`] can give, for checking the rules of a test.
pub(crate) const OPERATIONS: &[&str] = &[
    "AbortMultipartUpload",
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateBucket",
    "CreateMultipartUpload",
    "DeleteBucket",
    "DeleteBucketSubresource",
    "DeleteObject",
    "DeleteObjectTagging",
    "DeleteObjects",
    "GetBucketEncryption",
    "GetBucketLocation",
    "GetBucketSubresource",
    "GetBucketVersioning",
    "GetObject",
    "GetObjectAcl",
    "GetObjectAttributes",
    "GetObjectLegalHold",
    "GetObjectRetention",
    "GetObjectTagging",
    "HeadBucket",
    "HeadObject",
    "ListBuckets",
    "ListMultipartUploads",
    "ListObjectVersions",
    "ListObjects",
    "ListObjectsV2",
    "ListParts",
    "Other",
    "PutBucketSubresource",
    "PutBucketVersioning",
    "PutObject",
    "PutObjectAcl",
    "PutObjectLegalHold",
    "PutObjectRetention",
    "PutObjectTagging",
    "RestoreObject",
    "SelectObjectContent",
    "UploadPart",
    "UploadPartCopy",
];

/// Subresources of a bucket that change nothing about objects: all reported under one name per verb.
const BUCKET_SUBRESOURCES: &[&str] = &[
    "acl",
    "accelerate",
    "analytics",
    "cors",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "lifecycle",
    "logging",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "replication",
    "requestPayment",
    "tagging",
    "website",
];

/// The names in a query string, with their decoded values.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(raw: Option<&str>) -> Self {
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let pairs = raw.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(name), decode(value))
                })
                .collect(),
        )
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

/// Reads a request's head; its body plays no part.
pub(crate) fn classify(parts: &Parts) -> RequestInfo {
    let query = Query::parse(parts.uri.query());
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let path = parts.uri.path().strip_prefix('/').unwrap_or(parts.uri.path());
    let (bucket, key) = match path.split_once('/') {
        Some((bucket, key)) => (decode(bucket), decode(key)),
        None => (decode(path), String::new()),
    };
    let copies = parts.headers.contains_key("x-amz-copy-source");
    let operation = if bucket.is_empty() {
        if parts.method == Method::GET { "ListBuckets" } else { "Other" }
    } else if key.is_empty() {
        of_bucket(&parts.method, &query)
    } else {
        of_object(&parts.method, &query, copies)
    };
    let header =
        |name: &str| parts.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    RequestInfo {
        operation,
        bucket: Some(bucket).filter(|bucket| !bucket.is_empty()),
        key: Some(key).filter(|key| !key.is_empty()),
        part_number: query.get("partNumber").and_then(|number| number.parse().ok()),
        upload_id: query.get("uploadId").map(str::to_owned),
        copy_source: header("x-amz-copy-source").map(|source| decode(source.trim_start_matches('/'))),
        range: header("x-amz-copy-source-range").or_else(|| header("range")),
        access_key: access_key(&parts.headers, &query),
    }
}

fn of_bucket(method: &Method, query: &Query) -> &'static str {
    let subresource = BUCKET_SUBRESOURCES.iter().any(|name| query.has(name));
    match method.as_str() {
        "HEAD" => "HeadBucket",
        "GET" if query.get("list-type") == Some("2") => "ListObjectsV2",
        "GET" if query.has("uploads") => "ListMultipartUploads",
        "GET" if query.has("versions") => "ListObjectVersions",
        "GET" if query.has("location") => "GetBucketLocation",
        "GET" if query.has("versioning") => "GetBucketVersioning",
        "GET" if query.has("encryption") => "GetBucketEncryption",
        "GET" if subresource => "GetBucketSubresource",
        "GET" => "ListObjects",
        "PUT" if query.has("versioning") => "PutBucketVersioning",
        "PUT" if subresource => "PutBucketSubresource",
        "PUT" => "CreateBucket",
        "DELETE" if subresource => "DeleteBucketSubresource",
        "DELETE" => "DeleteBucket",
        "POST" if query.has("delete") => "DeleteObjects",
        _ => "Other",
    }
}

fn of_object(method: &Method, query: &Query, copies: bool) -> &'static str {
    match method.as_str() {
        "HEAD" => "HeadObject",
        "GET" if query.has("uploadId") => "ListParts",
        "GET" if query.has("tagging") => "GetObjectTagging",
        "GET" if query.has("attributes") => "GetObjectAttributes",
        "GET" if query.has("acl") => "GetObjectAcl",
        "GET" if query.has("retention") => "GetObjectRetention",
        "GET" if query.has("legal-hold") => "GetObjectLegalHold",
        "GET" => "GetObject",
        "PUT" if query.has("uploadId") && query.has("partNumber") => {
            if copies {
                "UploadPartCopy"
            } else {
                "UploadPart"
            }
        }
        "PUT" if query.has("tagging") => "PutObjectTagging",
        "PUT" if query.has("acl") => "PutObjectAcl",
        "PUT" if query.has("retention") => "PutObjectRetention",
        "PUT" if query.has("legal-hold") => "PutObjectLegalHold",
        "PUT" if copies => "CopyObject",
        "PUT" => "PutObject",
        "POST" if query.has("uploads") => "CreateMultipartUpload",
        "POST" if query.has("uploadId") => "CompleteMultipartUpload",
        "POST" if query.has("restore") => "RestoreObject",
        "POST" if query.has("select") => "SelectObjectContent",
        "DELETE" if query.has("uploadId") => "AbortMultipartUpload",
        "DELETE" if query.has("tagging") => "DeleteObjectTagging",
        "DELETE" => "DeleteObject",
        _ => "Other",
    }
}

/// The access key id that signed the request, in a header or in a presigned query.
fn access_key(headers: &HeaderMap, query: &Query) -> Option<String> {
    let credential = match headers.get("authorization") {
        Some(value) => value.to_str().ok()?.split_once("Credential=")?.1,
        None => query.get("X-Amz-Credential")?,
    };
    credential.split('/').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn call(method: &str, uri: &str, headers: &[(&str, &str)]) -> RequestInfo {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        classify(&request.body(()).expect("a request").into_parts().0)
    }

    #[test]
    fn names_every_operation_that_transfers_use() {
        type Row = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str);
        const COPY: (&str, &str) = ("x-amz-copy-source", "/src/a%20b?versionId=7");
        let table: &[Row] = &[
            ("GET", "/", &[], "ListBuckets"),
            ("HEAD", "/b", &[], "HeadBucket"),
            ("HEAD", "/b/", &[], "HeadBucket"),
            ("PUT", "/b", &[], "CreateBucket"),
            ("GET", "/b?list-type=2&prefix=uploads", &[], "ListObjectsV2"),
            ("GET", "/b?prefix=a", &[], "ListObjects"),
            ("GET", "/b?uploads", &[], "ListMultipartUploads"),
            ("GET", "/b?versions=", &[], "ListObjectVersions"),
            ("GET", "/b?policy", &[], "GetBucketSubresource"),
            ("PUT", "/b?versioning", &[], "PutBucketVersioning"),
            ("POST", "/b?delete", &[], "DeleteObjects"),
            ("HEAD", "/b/k", &[], "HeadObject"),
            ("GET", "/b/k?partNumber=1", &[], "GetObject"),
            ("GET", "/b/k?tagging", &[], "GetObjectTagging"),
            ("GET", "/b/k?attributes", &[], "GetObjectAttributes"),
            ("GET", "/b/k?uploadId=u", &[], "ListParts"),
            ("PUT", "/b/k", &[], "PutObject"),
            ("PUT", "/b/k", &[COPY], "CopyObject"),
            ("PUT", "/b/k?partNumber=3&uploadId=u", &[], "UploadPart"),
            ("PUT", "/b/k?partNumber=3&uploadId=u", &[COPY], "UploadPartCopy"),
            ("POST", "/b/k?uploads", &[], "CreateMultipartUpload"),
            ("POST", "/b/k?uploadId=u", &[], "CompleteMultipartUpload"),
            ("DELETE", "/b/k?uploadId=u", &[], "AbortMultipartUpload"),
            ("DELETE", "/b/k", &[], "DeleteObject"),
            ("PATCH", "/b/k", &[], "Other"),
        ];

        for (method, uri, headers, operation) in table {
            assert_eq!(call(method, uri, headers).operation, *operation, "{method} {uri}");
            assert!(OPERATIONS.contains(operation), "{operation} is not listed");
        }
    }

    #[test]
    fn decodes_what_a_part_copy_names() {
        let headers = [
            ("x-amz-copy-source", "/src/a%20b%2Bc?versionId=7"),
            ("x-amz-copy-source-range", "bytes=0-9"),
            ("authorization", "AWS4-HMAC-SHA256 Credential=KEY/20261121/us-east-1/s3/aws4_request, SignedHeaders=host"),
        ];

        let call = call("PUT", "/b/x/%C3%BC+%26//y?partNumber=12&uploadId=a%2Fb", &headers);

        assert_eq!(call.bucket.as_deref(), Some("b"));
        assert_eq!(call.key.as_deref(), Some("x/ü+&//y"));
        assert_eq!(call.part_number, Some(12));
        assert_eq!(call.upload_id.as_deref(), Some("a/b"));
        assert_eq!(call.copy_source.as_deref(), Some("src/a b+c?versionId=7"));
        assert_eq!(call.range.as_deref(), Some("bytes=0-9"));
        assert_eq!(call.access_key.as_deref(), Some("KEY"));
    }

    #[test]
    fn reads_the_access_key_of_a_presigned_address() {
        let call = call("GET", "/b/k?X-Amz-Credential=KEY%2F20261121%2Fus-east-1%2Fs3%2Faws4_request", &[]);

        assert_eq!(call.access_key.as_deref(), Some("KEY"));
    }
}
