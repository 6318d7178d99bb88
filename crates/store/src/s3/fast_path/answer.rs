//! Answers of the fast path: their headers, and the results and errors in their bodies.

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::ChecksumType;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::Headers;
use aws_smithy_xml::decode::{Document, XmlDecodeError, try_data};

use super::{ANSWER, BodyReader, ErrorContext, LONGEST_ANSWER, WriteAnswer};
use crate::checksum::ChecksumAlgorithm;
use crate::error::classify::code;
use crate::error::{Result, StoreError};
use crate::properties::Encryption;
use crate::s3::convert::{opaque_sse, strongest_of_headers, unquote};
use crate::s3::document::trim;
use crate::s3::failures::{chain, reason, region_hint, retry_after, transport_code, whole};

/// A whole answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Headers,
    pub(super) body: Vec<u8>,
}

/// Facts about the written object or part, from the headers of a success.
pub(super) fn read_write_answer(headers: &Headers) -> WriteAnswer {
    let header = |name| headers.get(name).filter(|value| !value.is_empty());
    WriteAnswer {
        etag: header("etag").map(str::to_owned),
        checksum: strongest_of_headers(headers),
        checksum_kind: header("x-amz-checksum-type").map(ChecksumType::from),
        version_id: header("x-amz-version-id").map(str::to_owned),
        opaque_etag: opaque_sse(
            headers.get("x-amz-server-side-encryption-customer-algorithm"),
            headers.get("x-amz-server-side-encryption"),
        ),
        encryption: Encryption::from_headers(|name| headers.get(name)),
    }
}

/// Error for a request that got no answer.
pub(super) fn connection_error(about: ErrorContext<'_>, error: &ConnectorError) -> StoreError {
    let code = if error.is_user() { "InvalidRequest" } else { transport_code(error) };
    about.failed(code, None).with_message(chain(error))
}

/// Reads an answer with its whole body.
pub(super) async fn read(about: ErrorContext<'_>, response: HttpResponse) -> Result<Answer> {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let body = read_all(about, status, BodyReader::by_sdk(ByteStream::new(response.into_body()))).await?;
    Ok(Answer { status, headers, body })
}

pub(super) async fn read_all(about: ErrorContext<'_>, status: u16, mut body: BodyReader) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        match body.read(&mut all, ANSWER).await {
            Ok(0) => return Ok(all),
            Ok(_) if all.len() <= LONGEST_ANSWER => {}
            Ok(_) => {
                return Err(about.failed(code::MALFORMED, Some(status)).with_message("the answer has no end"));
            }
            Err(error) => {
                let code = if status < 300 { code::TRUNCATED } else { reason(status) };
                return Err(about.failed(code, Some(status)).with_message(chain(&error)));
            }
        }
    }
}

impl Answer {
    /// Result of the answer to a copy. A body without a copy result is an error, whatever the status.
    pub(super) fn into_copy_result(self, about: ErrorContext<'_>, element: &str) -> Result<WriteAnswer> {
        if self.status >= 300 {
            return Err(self.refusal(about));
        }
        if self.body.is_empty() && self.headers.get("etag").is_some() {
            // S3 returns the ETag of a copy in the body. In a header it belongs to an upload: the empty body of this
            // request.
            return Err(about
                .failed(code::UNEXPECTED_ANSWER, Some(self.status))
                .with_message("the copy was taken for an upload of no bytes: x-amz-copy-source is ignored"));
        }
        if self.body.is_empty() {
            return Err(about
                .failed(code::MALFORMED, Some(self.status))
                .with_message(format!("the answer has no {element}")));
        }
        match XmlReply::read(&self.body) {
            // S3Proxy answers copies of parts like copies of objects. Completing the upload shows what it has done.
            Ok(reply) if reply.root == element || reply.root == "CopyObjectResult" && reply.etag.is_some() => {
                let header = |name| self.headers.get(name);
                Ok(WriteAnswer {
                    etag: reply.etag,
                    checksum: reply.checksum,
                    checksum_kind: reply.checksum_kind,
                    version_id: header("x-amz-version-id").map(str::to_owned),
                    opaque_etag: opaque_sse(
                        header("x-amz-server-side-encryption-customer-algorithm"),
                        header("x-amz-server-side-encryption"),
                    ),
                    encryption: Encryption::from_headers(|name| self.headers.get(name)),
                })
            }
            Ok(reply) if reply.root == "Error" => Err(self.failed(about, reply)),
            Ok(reply) => Err(about
                .failed(code::MALFORMED, Some(self.status))
                .with_message(format!("the answer holds {} where {element} belongs", reply.root))),
            Err(error) => Err(about.failed(code::MALFORMED, Some(self.status)).with_message(whole(&error))),
        }
    }

    /// Error from the body of a refusal. A body that is no XML has no code: the status gives one.
    pub(super) fn refusal(&self, about: ErrorContext<'_>) -> StoreError {
        self.failed(about, XmlReply::read(&self.body).unwrap_or_default())
    }

    fn failed(&self, about: ErrorContext<'_>, reply: XmlReply) -> StoreError {
        let mut failed = match &reply.code {
            Some(code) if !code.is_empty() => about.failed(code, Some(self.status)),
            _ if self.status < 300 => about.failed(code::MALFORMED, Some(self.status)),
            _ => about.failed(reason(self.status), Some(self.status)),
        }
        .with_message(reply.message.unwrap_or_default());
        failed.request_id = self.headers.get("x-amz-request-id").map(str::to_owned).or(reply.request_id);
        failed.region = region_hint(&self.headers, &self.body);
        failed.retry_after = retry_after(&self.headers);
        failed
    }
}

/// Fields of an XML body, of a result or of an error.
#[derive(Debug, Default, PartialEq)]
pub(in crate::s3) struct XmlReply {
    pub(in crate::s3) root: String,
    pub(in crate::s3) etag: Option<String>,
    pub(in crate::s3) checksum: Option<(ChecksumAlgorithm, String)>,
    pub(in crate::s3) checksum_kind: Option<ChecksumType>,
    pub(in crate::s3) code: Option<String>,
    pub(in crate::s3) message: Option<String>,
    pub(in crate::s3) request_id: Option<String>,
}

impl XmlReply {
    pub(in crate::s3) fn read(body: &[u8]) -> std::result::Result<Self, XmlDecodeError> {
        let mut document = Document::try_from(trim(body))?;
        let mut root = document.root_element()?;
        let mut reply = Self { root: root.start_el().local().to_owned(), ..Self::default() };
        // Rank of the kept checksum among all algorithms.
        let mut strongest = usize::MAX;
        while let Some(mut tag) = root.next_tag() {
            let name = tag.start_el().local().to_owned();
            let ranked = ChecksumAlgorithm::ALL.into_iter().enumerate();
            let known = |suffix| ranked.clone().find(|(_, algorithm)| algorithm.name() == suffix);
            if let Some((rank, algorithm)) = name.strip_prefix("Checksum").and_then(known) {
                let value = try_data(&mut tag)?.into_owned();
                if !value.is_empty() && rank < strongest {
                    (strongest, reply.checksum) = (rank, Some((algorithm, value)));
                }
                continue;
            }
            let field = match name.as_str() {
                "ETag" => &mut reply.etag,
                "Code" => &mut reply.code,
                "Message" => &mut reply.message,
                "RequestId" => &mut reply.request_id,
                "ChecksumType" => {
                    reply.checksum_kind = Some(ChecksumType::from(try_data(&mut tag)?.as_ref()));
                    continue;
                }
                _ => continue,
            };
            *field = Some(try_data(&mut tag)?.into_owned());
        }
        reply.etag = reply.etag.map(|etag| unquote(Some(&etag)));
        Ok(reply)
    }
}
