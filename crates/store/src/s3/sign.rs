//! Signatures (AWS Signature Version 4) of requests and of presigned addresses.
//!
//! The library takes a finished request apart, writes it again and makes the day's key each time: a fifth of the
//! engine's work for a small object (`docs/develop/performance.md`). Here the signed text is written once, and the key
//! is kept for the day. The cryptography comes from the library.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::sign::v4::{calculate_signature, generate_signing_key};
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use hyper::Uri;
use sha2::{Digest as _, Sha256};

use super::encoding::encode_query;
use crate::checksum::hex;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Headers that the signature does not cover. If a proxy drops `Range`, the service answers with the whole object,
/// which is noticed; it would refuse a signature over a missing header. Proxies write `Accept-Encoding` anew.
const UNSIGNED_HEADERS: [&str; 2] = ["range", "accept-encoding"];

/// Coverage of the body by the signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    /// The request has no body.
    Empty,
    /// The signature does not cover the body.
    Unsigned,
    /// The signature covers the SHA-256 of the body.
    Signed([u8; 32]),
}

impl Payload {
    pub(super) fn of_body(body: &[u8]) -> Self {
        Self::Signed(Sha256::digest(body).into())
    }

    fn text(self) -> Cow<'static, str> {
        match self {
            // The SHA-256 of no bytes.
            Self::Empty => "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".into(),
            Self::Unsigned => "UNSIGNED-PAYLOAD".into(),
            Self::Signed(digest) => hex(&digest).into(),
        }
    }
}

/// A request to be signed. Its address is already in the form that is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct SignatureInput<'a> {
    pub(super) method: &'a str,
    pub(super) uri: &'a Uri,
    /// Headers with names in lower case. All but [`UNSIGNED_HEADERS`] are signed.
    pub(super) headers: &'a [(Cow<'static, str>, String)],
    pub(super) payload: Payload,
}

/// Signs requests to one region.
#[derive(Debug, Default)]
pub(super) struct Signer {
    last: RwLock<Option<Arc<SigningKey>>>,
}

/// Signing key of one day, with the region and credentials that it belongs to.
struct SigningKey {
    date: String,
    region: String,
    credentials: Credentials,
    key: Vec<u8>,
}

/// The output leaves out the key and the credentials.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("date", &self.date).field("region", &self.region).finish_non_exhaustive()
    }
}

impl Signer {
    /// Returns the headers that sign a request.
    pub(super) fn sign(
        &self,
        input: &SignatureInput<'_>,
        credentials: &Credentials,
        region: &str,
        time: SystemTime,
    ) -> Vec<(&'static str, String)> {
        let amz_date = amz_date(time);
        let date = amz_date.get(..8).unwrap_or_default();
        let mut added =
            vec![("x-amz-content-sha256", input.payload.text().into_owned()), ("x-amz-date", amz_date.clone())];
        added.extend(credentials.session_token().map(|token| ("x-amz-security-token", token.to_owned())));
        let host = host(input.uri);
        let mut headers: Vec<(&str, &str)> =
            input.headers.iter().map(|(name, value)| (name.as_ref(), value.as_str())).collect();
        headers.retain(|(name, _)| !UNSIGNED_HEADERS.contains(name));
        headers.extend(added.iter().map(|(name, value)| (*name, value.as_str())));
        headers.push(("host", &host));
        headers.sort_unstable();
        let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let scope = format!("{date}/{region}/s3/aws4_request");
        let canonical = canonical_request(input, &headers, &names);
        let signature =
            Self::signature(&canonical, &amz_date, &scope, &self.signing_key(credentials, region, time, date));
        let access_key = credentials.access_key_id();
        let authorization =
            format!("{ALGORITHM} Credential={access_key}/{scope}, SignedHeaders={names}, Signature={signature}");
        added.push(("authorization", authorization));
        added
    }

    /// Returns the address of a request with its signature, valid for so many seconds. The headers of the request must
    /// be sent with it.
    pub(super) fn presign(
        &self,
        input: &SignatureInput<'_>,
        credentials: &Credentials,
        region: &str,
        time: SystemTime,
        seconds: u64,
    ) -> String {
        let amz_date = amz_date(time);
        let date = amz_date.get(..8).unwrap_or_default();
        let host = host(input.uri);
        let mut headers: Vec<(&str, &str)> = vec![("host", &host)];
        headers.extend(input.headers.iter().map(|(name, value)| (name.as_ref(), value.as_str())));
        headers.retain(|(name, _)| !UNSIGNED_HEADERS.contains(name));
        headers.sort_unstable();
        let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let scope = format!("{date}/{region}/s3/aws4_request");
        let credential = format!("{}/{scope}", credentials.access_key_id());
        let mut address = input.uri.to_string();
        address.push(if input.uri.query().is_some() { '&' } else { '?' });
        let _never_fails = write!(
            address,
            "X-Amz-Algorithm={ALGORITHM}&X-Amz-Credential={}&X-Amz-Date={amz_date}&X-Amz-Expires={seconds}&X-Amz-SignedHeaders={}",
            encode_query(&credential),
            encode_query(&names)
        );
        if let Some(token) = credentials.session_token() {
            let _never_fails = write!(address, "&X-Amz-Security-Token={}", encode_query(token));
        }
        let uri = address.parse().unwrap_or_default();
        let canonical = canonical_request(&SignatureInput { uri: &uri, ..*input }, &headers, &names);
        let signature =
            Self::signature(&canonical, &amz_date, &scope, &self.signing_key(credentials, region, time, date));
        address + "&X-Amz-Signature=" + &signature
    }

    fn signature(canonical: &str, amz_date: &str, scope: &str, key: &SigningKey) -> String {
        let to_sign = format!("{ALGORITHM}\n{amz_date}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
        calculate_signature(&key.key, to_sign.as_bytes())
    }

    fn signing_key(&self, credentials: &Credentials, region: &str, time: SystemTime, date: &str) -> Arc<SigningKey> {
        let last = self.last.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(key) = last
            && key.date == date
            && key.region == region
            && key.credentials.secret_access_key() == credentials.secret_access_key()
        {
            return key;
        }
        let key = Arc::new(SigningKey {
            date: date.to_owned(),
            region: region.to_owned(),
            credentials: credentials.clone(),
            key: generate_signing_key(credentials.secret_access_key(), time, region, "s3").as_ref().to_vec(),
        });
        *self.last.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&key));
        key
    }
}

/// Formats a time like `x-amz-date`.
fn amz_date(time: SystemTime) -> String {
    let whole = DateTime::from_secs(DateTime::from(time).secs());
    let text = whole.fmt(Format::DateTime).unwrap_or_default();
    text.chars().filter(|one| !matches!(one, '-' | ':')).collect()
}

/// The host as it is sent, without the default port of the scheme.
pub(super) fn host(uri: &Uri) -> String {
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let host = uri.host().unwrap_or_default();
    match uri.port_u16().filter(|port| *port != usual) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// The canonical request, which client and service both write before they sign.
fn canonical_request(input: &SignatureInput<'_>, headers: &[(&str, &str)], names: &str) -> String {
    let mut text = String::with_capacity(1024);
    for part in [input.method, "\n", input.uri.path(), "\n"] {
        text.push_str(part);
    }
    // The query is encoded already (see `encoding::encode_query`).
    let mut pairs: Vec<(&str, &str)> = input
        .uri
        .query()
        .map(|query| query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect())
        .unwrap_or_default();
    pairs.sort_unstable();
    for (nth, (name, value)) in pairs.iter().enumerate() {
        let _never_fails = write!(text, "{}{name}={value}", if nth == 0 { "" } else { "&" });
    }
    text.push('\n');
    for (name, value) in headers {
        text.push_str(name);
        text.push(':');
        push_header_value(&mut text, value);
        text.push('\n');
    }
    for part in ["\n", names, "\n", input.payload.text().as_ref()] {
        text.push_str(part);
    }
    text
}

/// Appends a header's value, trimmed and with single spaces.
fn push_header_value(text: &mut String, value: &str) {
    let value = value.trim_matches(' ');
    if !value.contains("  ") {
        text.push_str(value);
        return;
    }
    let mut before = '\0';
    for one in value.chars() {
        if one != ' ' || before != ' ' {
            text.push(one);
        }
        before = one;
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use aws_sigv4::http_request::{
        PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation, SigningSettings,
        UriPathNormalizationMode, sign,
    };
    use aws_sigv4::sign::v4;
    use aws_smithy_runtime_api::client::identity::Identity;
    use proptest::prelude::*;

    use super::*;
    use crate::s3::encoding::encode_path;

    fn settings() -> SigningSettings {
        let mut settings = SigningSettings::default();
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        settings.excluded_headers = Some(UNSIGNED_HEADERS.map(Into::into).to_vec());
        settings
    }

    /// The signature of the library, in headers or in the query of an address that is valid for so many seconds.
    fn by_library(
        input: &SignatureInput<'_>,
        credentials: &Credentials,
        region: &str,
        time: SystemTime,
        presigned: Option<u64>,
    ) -> Vec<(String, String)> {
        let mut settings = settings();
        if let Some(seconds) = presigned {
            settings.signature_location = SignatureLocation::QueryParams;
            settings.expires_in = Some(Duration::from_secs(seconds));
        }
        let identity = Identity::from(credentials.clone());
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(region)
            .name("s3")
            .time(time)
            .settings(settings)
            .build()
            .unwrap();
        let body = match input.payload {
            Payload::Empty => SignableBody::Bytes(&[]),
            Payload::Unsigned => SignableBody::UnsignedPayload,
            Payload::Signed(digest) => SignableBody::Precomputed(hex(&digest)),
        };
        let headers = input.headers.iter().map(|(name, value)| (name.as_ref(), value.as_str()));
        let request = SignableRequest::new(input.method, input.uri.to_string(), headers, body).unwrap();
        let signed = sign(request, &parameters.into()).unwrap().into_parts().0;
        let headers = signed.headers().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let query = signed.params().iter().map(|(name, value)| ((*name).to_owned(), value.to_string()));
        let mut added: Vec<(String, String)> = headers.chain(query).collect();
        added.sort();
        added
    }

    fn decode(value: &str) -> String {
        percent_encoding::percent_decode_str(value).decode_utf8().unwrap().into_owned()
    }

    #[test]
    fn keys_and_tokens_are_not_shown() {
        let uri: Uri = "https://bucket.s3.eu-west-1.amazonaws.com/key".parse().unwrap();
        let input = SignatureInput { method: "GET", uri: &uri, headers: &[], payload: Payload::Empty };
        let credentials = Credentials::new("AKID", "wJalrXUtnFEMI", Some("session-token".to_owned()), None, "test");
        let signer = Signer::default();
        let time = UNIX_EPOCH + Duration::from_hours(24);
        let added = signer.sign(&input, &credentials, "eu-west-1", time);
        let mut headers = crate::s3::request::RequestHeaders::default();
        for (name, value) in &added {
            headers.add(*name, Some(value.clone()));
        }
        let key = signer.signing_key(&credentials, "eu-west-1", time, "19700102");

        let shown = format!("{signer:?} {key:?} {headers:?} {credentials:?}");

        assert!(shown.contains("eu-west-1") && shown.contains("x-amz-security-token"), "{shown}");
        let bytes = format!("{:?}", key.key);
        let signature = added.iter().find(|(name, _)| *name == "authorization").unwrap().1.as_str();
        for secret in ["wJalrXUtnFEMI", "session-token", bytes.trim_matches(['[', ']']), signature] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    proptest! {
        #[test]
        fn what_is_signed_is_what_the_library_signs(
            get: bool,
            address in prop_oneof![
                Just("http://127.0.0.1:8080/bucket"),
                Just("https://bucket.s3.eu-west-1.amazonaws.com"),
                Just("https://host:443/b"),
                Just("http://[::1]:80/b"),
            ],
            key in "[ -~é✓]{1,40}",
            version in proptest::option::of("[ -~]{1,20}"),
            part in proptest::option::of(1..10_000_u32),
            range in proptest::option::of("bytes=[0-9]{1,5}-[0-9]{1,5}"),
            values in proptest::collection::vec("[!-~]([ -~é]{0,20}[!-~])?", 0..6),
            token in proptest::option::of("[A-Za-z0-9/+=]{1,50}"),
            region in prop_oneof![Just("us-east-1"), Just("eu-central-1")],
            seconds in proptest::collection::vec(0..4_000_000_000_u64, 1..4),
            secrets in proptest::collection::vec("[A-Za-z0-9/+]{10,40}", 1..3),
            body in proptest::option::of(proptest::option::of("[a-z]{0,10}")),
        ) {
            let pairs: Vec<String> = [
                part.map(|part| format!("partNumber={part}")),
                version.map(|version| format!("versionId={}", encode_query(&version))),
            ]
            .into_iter()
            .flatten()
            .collect();
            let end = if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) };
            let uri: Uri = format!("{address}/{}{end}", encode_path(&key)).parse().unwrap();
            let mut headers: Vec<(Cow<'static, str>, String)> =
                values.into_iter().enumerate().map(|(nth, value)| (format!("x-amz-meta-{nth}").into(), value)).collect();
            headers.extend(range.map(|range| ("range".into(), range)));
            let input = SignatureInput {
                method: if get { "GET" } else { "PUT" },
                uri: &uri,
                headers: &headers,
                payload: match &body {
                    None => Payload::Empty,
                    Some(None) => Payload::Unsigned,
                    Some(Some(body)) => Payload::of_body(body.as_bytes()),
                },
            };
            let signer = Signer::default();
            for seconds in seconds {
                for secret in &secrets {
                    let credentials = Credentials::new("AKID", secret.clone(), token.clone(), None, "test");
                    let time = UNIX_EPOCH + Duration::new(seconds, 999_999_999);

                    let mut signed: Vec<(String, String)> = signer
                        .sign(&input, &credentials, region, time)
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect();

                    signed.sort();
                    prop_assert_eq!(&signed, &by_library(&input, &credentials, region, time, None));
                    prop_assert_eq!(&signer.sign(&input, &credentials, region, time).len(), &signed.len(), "and again");

                    let input = SignatureInput { payload: Payload::Unsigned, ..input };
                    let address = signer.presign(&input, &credentials, region, time, 60);
                    let added = address.strip_prefix(&uri.to_string()).unwrap();
                    let mut added: Vec<(String, String)> = added[1..]
                        .split('&')
                        .map(|pair| pair.split_once('=').unwrap())
                        .map(|(name, value)| (name.to_owned(), decode(value)))
                        .collect();
                    added.sort();
                    prop_assert_eq!(&added, &by_library(&input, &credentials, region, time, Some(60)));
                }
            }
        }
    }
}
