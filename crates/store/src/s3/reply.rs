//! Whole replies: the results in their headers, and the documents in their bodies.

use aws_smithy_runtime_api::http::Headers;

use super::encoding::unquote;
use super::errors::{ErrorContext, error_chain};
use super::http1::Reply;
use super::object_meta::{has_opaque_etag, stored_checksum, strongest_checksum};
use super::xml::Element;
use crate::checksum::ChecksumAlgorithm;
use crate::error::classify::code;
use crate::error::{Result, StoreError};
use crate::properties::Encryption;
use crate::types::{WrittenObject, WrittenPart};

/// Largest accepted document in bytes. A page of 1,000 keys of 1 KiB, each byte encoded as three, has 3 MiB, and with
/// versions and markers more; some services send larger pages.
const MAX_LIST_DOCUMENT: usize = 32 << 20;
/// The same for replies that are no listing: a document of ten tags has some 20 KiB. S3 pads replies with white space
/// while it copies or joins parts.
const MAX_DOCUMENT: usize = 1 << 20;
/// Operations whose replies are lists.
const LIST_OPERATIONS: [&str; 6] =
    ["ListObjectsV2", "ListObjectVersions", "ListMultipartUploads", "ListParts", "ListBuckets", "DeleteObjects"];
/// Bytes of one read of a reply. Most replies are shorter, but for listings.
const FIRST_READ: usize = 1 << 10;

/// A reply with its whole body.
pub(super) struct WholeReply {
    pub(super) status: u16,
    pub(super) headers: Headers,
    body: Vec<u8>,
}

impl WholeReply {
    pub(super) async fn read(context: ErrorContext<'_>, mut reply: Reply) -> Result<Self> {
        let most = if LIST_OPERATIONS.contains(&context.operation) { MAX_LIST_DOCUMENT } else { MAX_DOCUMENT };
        let mut body = Vec::new();
        loop {
            // Longer replies are read in larger pieces.
            let piece = FIRST_READ.max(body.len());
            match reply.body.read(&mut body, piece).await {
                Ok(0) => return Ok(Self { status: reply.status, headers: reply.headers, body }),
                Ok(_) if body.len() <= most => {}
                Ok(_) => {
                    let why = Err(format!("the answer has more than {most} bytes: the limit of its length"));
                    return Err(context.malformed_reply(reply.status, &body, why, "document"));
                }
                Err(error) if reply.status < 300 => {
                    return Err(context.error(code::TRUNCATED, Some(reply.status)).with_message(error_chain(&error)));
                }
                // The status is known, and perhaps the code.
                Err(error) => {
                    let refused = context.reply_error(reply.status, &reply.headers, &body);
                    return Err(refused.with_message(error_chain(&error)));
                }
            }
        }
    }

    /// Error of a refusal.
    pub(super) fn error(&self, context: ErrorContext<'_>) -> StoreError {
        context.reply_error(self.status, &self.headers, &self.body)
    }

    /// The document of a success, whose root has one of these names, the usual one first. A success can hold an error:
    /// its status is sent before the end is known.
    pub(super) fn document(&self, context: ErrorContext<'_>, roots: &[&str]) -> Result<Element<'_>> {
        let root = roots.first().copied().unwrap_or_default();
        match Element::read(&self.body) {
            Ok(document) if roots.contains(&document.name) => Ok(document),
            Ok(document) if document.name == "Error" => Err(self.error(context)),
            Ok(document) => Err(context.malformed_reply(self.status, &self.body, Ok(document.name), root)),
            Err(why) => Err(context.malformed_reply(self.status, &self.body, Err(why), root)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// True for the answer to an upload of no bytes. S3 returns the `ETag` of a copy in the body.
    pub(super) fn is_put_reply(&self) -> bool {
        self.is_empty() && self.headers.get("etag").is_some()
    }

    /// The written object or part, from the headers of a PUT.
    pub(super) fn write_reply_in_headers(&self, context: ErrorContext<'_>) -> Result<WriteReply> {
        let header = |name| self.headers.get(name).filter(|value| !value.is_empty());
        self.write_reply(context, header("etag"), strongest_checksum(&self.headers), header("x-amz-checksum-type"))
    }

    /// The written object or part, from the document of a copy or of a completed upload.
    pub(super) fn write_reply_in_body(&self, context: ErrorContext<'_>, roots: &[&str]) -> Result<WriteReply> {
        let document = self.document(context, roots)?;
        self.write_reply(context, document.text("ETag"), document.checksum(), document.text("ChecksumType"))
    }

    fn write_reply(
        &self,
        context: ErrorContext<'_>,
        etag: Option<&str>,
        found: Option<(ChecksumAlgorithm, String)>,
        kind: Option<&str>,
    ) -> Result<WriteReply> {
        let header = |name| self.headers.get(name).filter(|value| !value.is_empty());
        let unquoted = unquote(etag);
        if unquoted.is_empty() {
            return Err(context.missing_field("ETag"));
        }
        Ok(WriteReply {
            part: WrittenPart {
                etag: unquoted.clone(),
                checksum: found.as_ref().map(|(_, value)| value.clone()),
                opaque_etag: has_opaque_etag(&self.headers),
            },
            object: WrittenObject {
                etag: unquoted,
                version_id: header("x-amz-version-id").filter(|id| *id != "null").map(str::to_owned),
                checksum: stored_checksum(found, kind, etag),
                encryption: Encryption::from_headers(|name| self.headers.get(name)),
            },
        })
    }
}

/// A finished write, as the result of an object and of a part.
pub(super) struct WriteReply {
    pub(super) object: WrittenObject,
    pub(super) part: WrittenPart,
}
