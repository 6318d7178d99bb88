//! Requests of multipart uploads: creating, parts, completing, aborting, listing.

use async_trait::async_trait;
use bytes::Bytes;

use super::page_check::PageCheck;
use super::page_order::{PageEntries, PageOrders};
use super::read::parse_key;
use super::{COMPLETE_TIMEOUT, MAX_UPLOAD_PAGES, METADATA_TIMEOUT};
use crate::body::Body;
use crate::checksum::ChecksumKind;
use crate::error::Result;
use crate::error::StoreError;
use crate::error::classify::code;
use crate::s3::encoding::{decode_key, quote, unquote};
use crate::s3::headers::{body_headers, checksum_type, copy_source_headers, upload_headers};
use crate::s3::object_meta::checksum_header;
use crate::s3::request::Request;
use crate::s3::xml::{Element, checksum_element, document, push_text};
use crate::s3::{ReplyTimeout, S3Store};
use crate::store::MultipartUpload;
use crate::store::put_buffered_part;
use crate::types::{
    CompleteUpload, CreateUpload, Digests, PartInfo, PartsPage, PinnedObject, Range, UploadInfo, UploadRef,
    WrittenObject, WrittenPart,
};

/// Largest number of a part.
const MAX_PART_NUMBER: u32 = 10_000;

/// Checks that parts ascend, that they follow the one that was requested, and that a page that is not the last one has
/// a next one.
fn check_parts(check: &PageCheck<'_>, page: &PartsPage, after: Option<u32>, truncated: bool) -> Result<()> {
    let after = after.unwrap_or_default();
    let mut last = after;
    for part in &page.parts {
        // SeaweedFS lists a part twice that was sent twice.
        if part.number < last || part.number == after || part.number > MAX_PART_NUMBER {
            return Err(check.contradiction(&format!("part {} follows part {last}", part.number)));
        }
        if part.etag.is_empty() {
            return Err(check.contradiction(&format!("part {} has no ETag", part.number)));
        }
        last = part.number;
    }
    match page.next {
        Some(next) if next < last => Err(check.contradiction("the next page begins before the last part of this one")),
        Some(next) if next == after => {
            Err(check.contradiction("its marker for the next page is that of its own request"))
        }
        None if truncated => Err(check.contradiction("it is truncated, and has no marker for the next page")),
        _ => Ok(()),
    }
}

/// Request for a page of open uploads.
struct UploadsRequest<'a> {
    bucket: &'a str,
    prefix: &'a str,
    key: Option<&'a str>,
    id: Option<&'a str>,
}

impl<'a> UploadsRequest<'a> {
    /// Compares the page with what it states of itself, and with the request. Services name a next page also where
    /// there is none, AWS among them.
    fn check_page(&self, page: &Element<'_>) -> Result<PageCheck<'a>> {
        let check = PageCheck {
            operation: "ListMultipartUploads",
            bucket: self.bucket,
            prefix: self.prefix,
            entries: page.all("Upload").count(),
            common_prefixes: page.all("CommonPrefixes").count(),
            ..PageCheck::default()
        };
        check.check_bucket(page.text("Bucket"))?;
        check.check_echo("prefix", page.text("Prefix"), Some(self.prefix))?;
        check.check_echo("key marker", page.text("KeyMarker"), self.key)?;
        check.check_echo("upload id marker", page.text("UploadIdMarker"), self.id)?;
        check.check_encoding(page.text("EncodingType"))?;
        check.check_counts(None, page.value("MaxUploads"))?;
        if page.all("Upload").any(|upload| upload.text("UploadId").is_none_or(str::is_empty)) {
            return Err(check.contradiction("an upload has no id"));
        }
        for key in page.all("Upload").map(|upload| upload.text("Key").unwrap_or_default()) {
            // Some services claim an encoding that they do not apply.
            check.check_key(key).or_else(|_| check.check_key(&decode_key(key)))?;
        }
        Ok(check)
    }
}

impl S3Store {
    /// A request about an upload, or about a part of it.
    fn upload_request<'a>(
        &self,
        method: &'static str,
        operation: &'static str,
        upload: UploadRef<'a>,
        part: Option<u32>,
    ) -> Request<'a> {
        let part = part.map(|part| part.to_string());
        let request = self.request(method, operation, upload.bucket, Some(upload.key));
        request.query("partNumber", part.as_deref()).query("uploadId", upload.upload_id)
    }
}

/// Reads a part of a list.
fn parse_part(part: &Element<'_>) -> PartInfo {
    PartInfo {
        number: part.value("PartNumber").unwrap_or_default(),
        size: part.value("Size").unwrap_or_default(),
        etag: unquote(part.text("ETag")),
        checksum: part.checksum().map(|(_, value)| value),
    }
}

/// The document that completes an upload. The checksum of a part has the element of the upload's algorithm.
fn complete_document(upload: &CompleteUpload) -> Bytes {
    let mut parts = String::new();
    for part in &upload.parts {
        parts.push_str("<Part>");
        push_text(&mut parts, "ETag", &quote(&part.etag));
        if let Some((algorithm, value)) = upload.checksum.zip(part.checksum.as_ref()) {
            push_text(&mut parts, checksum_element(algorithm), value);
        }
        push_text(&mut parts, "PartNumber", &part.number.to_string());
        parts.push_str("</Part>");
    }
    document("CompleteMultipartUpload", &parts)
}

#[async_trait]
impl MultipartUpload for S3Store {
    async fn create_upload(&self, upload: &CreateUpload) -> Result<String> {
        let request = self.request("POST", "CreateMultipartUpload", &upload.bucket, Some(&upload.key));
        let request = request.query_flag("uploads").headers(upload_headers(upload));
        let reply = self.call(&request, METADATA_TIMEOUT).await?;
        // rclone answers with the second one.
        let roots = ["InitiateMultipartUploadResult", "InitiateMultipartUpload"];
        let upload_id = reply.document(request.context, &roots)?.owned("UploadId");
        if upload_id.is_empty() { Err(request.context.missing_field("UploadId")) } else { Ok(upload_id) }
    }

    async fn copy_part(
        &self,
        source: &PinnedObject,
        range: Range,
        upload: UploadRef<'_>,
        part: u32,
    ) -> Result<WrittenPart> {
        let request = self
            .upload_request("PUT", "UploadPartCopy", upload, Some(part))
            .headers(copy_source_headers(source))
            .header("x-amz-copy-source-range", Some(range.header()));
        // S3Proxy answers copies of parts like copies of objects. Completing the upload shows what it has done.
        Ok(self.copy_as(&request, range.len(), &["CopyPartResult", "CopyObjectResult"]).await?.part)
    }

    async fn put_part(&self, upload: UploadRef<'_>, part: u32, body: Bytes, digests: &Digests) -> Result<WrittenPart> {
        let limit = ReplyTimeout::to_send(body.len() as u64);
        let request = self.upload_request("PUT", "UploadPart", upload, Some(part));
        let request = request.headers(body_headers(None, digests)).object_body(body);
        Ok(self.call(&request, limit).await?.write_reply_in_headers(request.context)?.part)
    }

    async fn stream_part(&self, upload: UploadRef<'_>, part: u32, size: u64, body: Body) -> Result<WrittenPart> {
        put_buffered_part(self, upload, part, size, body).await
    }

    async fn list_parts(&self, upload: UploadRef<'_>, after: Option<u32>) -> Result<PartsPage> {
        let UploadRef { bucket, key, upload_id } = upload;
        let marker = after.map(|part| part.to_string());
        let request = self.upload_request("GET", "ListParts", upload, None);
        let request = request.query("part-number-marker", marker.as_deref());
        let reply = self.call(&request, METADATA_TIMEOUT).await?;
        // moto answers with the second one.
        let page = reply.document(request.context, &["ListPartsResult", "ListPartsResponse"])?;
        let parts: Vec<PartInfo> = page.all("Part").map(parse_part).collect();
        let is_truncated = page.value("IsTruncated") == Some(true);
        // The last number seen is the marker if the service omits one.
        let next = page.value("NextPartNumberMarker").or(parts.last().map(|part| part.number));
        let check =
            PageCheck { operation: "ListParts", bucket, prefix: key, entries: parts.len(), ..PageCheck::default() };
        check.check_bucket(page.text("Bucket"))?;
        check.check_echo("key", page.text("Key"), Some(key))?;
        check.check_echo("upload id", page.text("UploadId"), Some(upload_id))?;
        check.check_counts(None, page.value("MaxParts"))?;
        let began: u32 = page.value("PartNumberMarker").unwrap_or_default();
        if began > 0 && began != after.unwrap_or_default() {
            return Err(check.contradiction("it begins at another part than was requested"));
        }
        check.check_sizes(page.all("Part"))?;
        let listed = PartsPage { parts, next: next.filter(|_| is_truncated) };
        check_parts(&check, &listed, after, is_truncated)?;
        Ok(listed)
    }

    async fn complete_upload(&self, upload: &CompleteUpload) -> Result<WrittenObject> {
        let CompleteUpload { bucket, key, upload_id, .. } = upload;
        let mut request = self
            .upload_request("POST", "CompleteMultipartUpload", UploadRef::new(bucket, key, upload_id), None)
            .xml_body(complete_document(upload))
            .header("if-none-match", upload.if_absent.then(|| "*".to_owned()))
            .header("if-match", upload.if_match.as_deref().map(quote))
            .header("x-amz-mp-object-size", (upload.size > 0).then(|| upload.size.to_string()));
        if let Some(whole) = upload.whole.as_ref().filter(|whole| whole.algorithm.supports_full_object()) {
            request = request.header(checksum_header(whole.algorithm), Some(whole.value.clone()));
        }
        // The type is repeated: Garage takes a CRC32 without a type for a composite one, against the type at the start.
        let kind = upload.whole.as_ref().map(|_| checksum_type(ChecksumKind::FullObject).to_owned());
        let request = request.header("x-amz-checksum-type", kind);
        let reply = self.call(&request, COMPLETE_TIMEOUT).await?;
        Ok(reply.write_reply_in_body(request.context, &["CompleteMultipartUploadResult"])?.object)
    }

    async fn abort_upload(&self, upload: UploadRef<'_>) -> Result<()> {
        self.call(&self.upload_request("DELETE", "AbortMultipartUpload", upload, None), METADATA_TIMEOUT).await?;
        Ok(())
    }

    async fn list_uploads(&self, bucket: &str, prefix: &str) -> Result<Vec<UploadInfo>> {
        let mut uploads: Vec<UploadInfo> = Vec::new();
        let (mut key_marker, mut id_marker): (Option<String>, Option<String>) = (None, None);
        let orders = PageOrders::default();
        for number in 0..MAX_UPLOAD_PAGES {
            let mut request = self
                .request("GET", "ListMultipartUploads", bucket, None)
                .query_flag("uploads")
                .query("prefix", prefix)
                .query("key-marker", key_marker.as_deref())
                .query("upload-id-marker", id_marker.as_deref())
                .query("encoding-type", "url");
            request.context.key = Some(prefix);
            let reply = self.call(&request, METADATA_TIMEOUT).await?;
            let page = reply.document(request.context, &["ListMultipartUploadsResult"])?;
            let came = uploads.len();
            uploads.extend(page.all("Upload").map(|upload| {
                let raw = upload.text("Key").unwrap_or_default();
                let key = parse_key(&page, Some(raw));
                // SeaweedFS claims an encoding that it does not apply here: the requested prefix reveals it.
                let claimed = !key.starts_with(prefix) && raw.starts_with(prefix);
                UploadInfo {
                    key: if claimed { raw.to_owned() } else { key },
                    upload_id: upload.owned("UploadId"),
                    initiated: upload.time("Initiated").unwrap_or_default(),
                }
            }));
            let next = page.text("NextKeyMarker").map(|raw| parse_key(&page, Some(raw)));
            let markers = (next, page.text("NextUploadIdMarker").map(str::to_owned));
            let asked = UploadsRequest { bucket, prefix, key: key_marker.as_deref(), id: id_marker.as_deref() };
            let check = asked.check_page(&page)?;
            let entries = PageEntries {
                lists: [uploads[came..].iter().map(|upload| upload.key.as_str()).collect(), Vec::new()],
                ids: uploads[came..].iter().map(|upload| upload.upload_id.as_str()).collect(),
                repeats_second: false,
            };
            let followed = orders.check("uploads", (number > 0).then_some(number), Some(number + 1), &entries);
            followed.map_err(|what| check.contradiction(&what))?;
            if page.value("IsTruncated") != Some(true) {
                return Ok(uploads);
            }
            // Without a marker, or with the one that was sent, the listing would end early or never.
            if markers.0.as_ref().is_none_or(String::is_empty) || (&markers.0, &markers.1) == (&key_marker, &id_marker)
            {
                return Err(check.contradiction("it is truncated, and has no marker for the next page"));
            }
            (key_marker, id_marker) = markers;
        }
        Err(StoreError::new("ListMultipartUploads", bucket, Some(prefix), code::MALFORMED, Some(200))
            .with_message(format!("the listing of open uploads has no end: {MAX_UPLOAD_PAGES} pages were read")))
    }
}
