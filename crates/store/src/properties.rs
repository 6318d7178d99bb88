//! Properties of an object besides bytes, attributes and tags: encryption, access, retention.

use std::fmt;
use std::sync::Arc;

use crate::checksum::{DigestAlgorithm, Digester, base64};

/// Server-side encryption of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Encryption {
    /// `AES256`, `aws:kms` or `aws:kms:dsse`; of an object with a customer's key always `AES256`.
    pub algorithm: String,
    /// Id or ARN of the KMS key. None: the service's own.
    pub kms_key: Option<String>,
    /// True when the key is sent with each request (SSE-C).
    pub is_customer: bool,
    /// True to request an S3 Bucket Key, which saves requests to KMS. Answers are not read for it.
    pub bucket_key: bool,
}

impl Encryption {
    /// Encryption with a key that the service manages.
    pub fn new(algorithm: &str, kms_key: Option<String>) -> Self {
        Self { algorithm: algorithm.to_owned(), kms_key, is_customer: false, bucket_key: false }
    }

    /// True when the key is one of KMS.
    pub fn is_kms(&self) -> bool {
        self.algorithm.starts_with("aws:kms")
    }

    /// True when the `ETag` of an object with this encryption is known to be no digest of its bytes: the key is a
    /// customer's, or that of a key management service. An unknown word hides nothing: an `ETag` that contradicts the
    /// bytes must not be skipped for it.
    pub fn has_opaque_etag(&self) -> bool {
        let word = self.algorithm.to_ascii_lowercase();
        self.is_customer || word.starts_with("aws:") || word.contains("kms") || word == "sm4"
    }

    /// Reads the encryption from the headers of an answer; `of` returns the value of a header.
    pub fn from_headers<'a>(of: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let filled = |name| of(name).map(str::trim).filter(|value| names_encryption(value));
        if let Some(algorithm) = filled("x-amz-server-side-encryption-customer-algorithm") {
            return Some(Self { is_customer: true, ..Self::new(algorithm, None) });
        }
        let key = filled("x-amz-server-side-encryption-aws-kms-key-id").map(str::to_owned);
        Some(Self::new(filled("x-amz-server-side-encryption")?, key))
    }

    /// True when an object with this encryption satisfies the request `wanted`. Keys are named by id, alias or ARN; an
    /// alias is not compared.
    pub fn satisfies(&self, wanted: &Self) -> bool {
        let key = |key: &str| key.rsplit(['/', ':']).next().unwrap_or_default().to_owned();
        let same_key = match (&wanted.kms_key, &self.kms_key) {
            (Some(wanted), Some(actual)) if !wanted.contains("alias/") => key(wanted) == key(actual),
            _ => true,
        };
        self.algorithm == wanted.algorithm && self.is_customer == wanted.is_customer && same_key
    }
}

/// False for the words by which services and proxies say that an object is not encrypted.
fn names_encryption(word: &str) -> bool {
    const NONE: [&str; 10] = ["", "none", "null", "nil", "undefined", "no", "false", "off", "disabled", "0"];
    !NONE.iter().any(|none| word.eq_ignore_ascii_case(none))
}

impl fmt::Display for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.kms_key, self.is_customer) {
            (_, true) => f.write_str("SSE-C"),
            (Some(key), _) => write!(f, "{} (key {key})", self.algorithm),
            (None, _) => f.write_str(&self.algorithm),
        }
    }
}

/// A key of SSE-C. It goes into requests and is never printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CustomerKey(Arc<[u8; 32]>);

impl CustomerKey {
    /// The key of these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Arc::new(bytes))
    }

    /// The headers that carry the key; with `of_source`, those for the source of a copy.
    pub(crate) fn headers(&self, of_source: bool) -> [(&'static str, String); 3] {
        let md5 = base64(&Digester::of(DigestAlgorithm::Md5, self.0.as_slice()));
        let (algorithm, key, digest) = if of_source {
            (
                "x-amz-copy-source-server-side-encryption-customer-algorithm",
                "x-amz-copy-source-server-side-encryption-customer-key",
                "x-amz-copy-source-server-side-encryption-customer-key-md5",
            )
        } else {
            (
                "x-amz-server-side-encryption-customer-algorithm",
                "x-amz-server-side-encryption-customer-key",
                "x-amz-server-side-encryption-customer-key-md5",
            )
        };
        [(algorithm, "AES256".to_owned()), (key, base64(self.0.as_slice())), (digest, md5)]
    }
}

impl fmt::Debug for CustomerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomerKey(hidden)")
    }
}

/// Object Lock of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectLock {
    /// Mode (`GOVERNANCE` or `COMPLIANCE`) and end of the retention, in the service's time format (RFC 3339).
    pub retention: Option<(String, String)>,
    /// True when there is a legal hold.
    pub legal_hold: bool,
}

impl ObjectLock {
    /// True when there is neither retention nor a legal hold.
    pub fn is_none(&self) -> bool {
        self.retention.is_none() && !self.legal_hold
    }

    /// True when an object with this lock satisfies the request `wanted`. Times are compared to the second, since
    /// services write them with more or fewer digits.
    pub fn satisfies(&self, wanted: &Self) -> bool {
        let second = |retention: &(String, String)| (retention.0.clone(), retention.1.get(..19).map(str::to_owned));
        let retention = wanted.retention.as_ref().map(second);
        (retention.is_none() || self.retention.as_ref().map(second) == retention)
            && (self.legal_hold || !wanted.legal_hold)
    }

    /// Reads the lock from the headers of an answer; `of` returns the value of a header.
    pub fn from_headers<'a>(of: impl Fn(&str) -> Option<&'a str>) -> Self {
        let filled = |name| of(name).filter(|value| !value.is_empty()).map(str::to_owned);
        Self {
            retention: filled("x-amz-object-lock-mode").zip(filled("x-amz-object-lock-retain-until-date")),
            legal_hold: of("x-amz-object-lock-legal-hold").is_some_and(|hold| hold.eq_ignore_ascii_case("on")),
        }
    }
}

impl fmt::Display for ObjectLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((mode, until)) = &self.retention {
            write!(f, "retention {mode} until {until}")?;
        }
        match (&self.retention, self.legal_hold) {
            (Some(_), true) => f.write_str(" and a legal hold"),
            (None, true) => f.write_str("a legal hold"),
            _ => Ok(()),
        }
    }
}

/// Options of a new object besides its bytes, attributes, tags and storage class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Server-side encryption. None: the bucket's default.
    pub encryption: Option<Encryption>,
    /// A canned ACL. None: the bucket's default.
    pub acl: Option<String>,
    /// Grants: the header's suffix (`read`, `read-acp`, `write-acp`, `full-control`), and the grantees.
    pub grants: Vec<(String, String)>,
    /// Retention and legal hold. None of them: the bucket's default.
    pub lock: ObjectLock,
}

impl WriteOptions {
    /// The headers of the request that makes the object.
    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        let mut add = |name: &str, value: Option<&String>| {
            headers.extend(value.map(|value| (name.to_owned(), value.clone())));
        };
        if let Some(encryption) = self.encryption.as_ref().filter(|encryption| !encryption.is_customer) {
            add("x-amz-server-side-encryption", Some(&encryption.algorithm));
            add("x-amz-server-side-encryption-aws-kms-key-id", encryption.kms_key.as_ref());
            let bucket_key = encryption.bucket_key.then(|| "true".to_owned());
            add("x-amz-server-side-encryption-bucket-key-enabled", bucket_key.as_ref());
        }
        add("x-amz-acl", self.acl.as_ref());
        for (suffix, grantees) in &self.grants {
            add(&format!("x-amz-grant-{suffix}"), Some(grantees));
        }
        if let Some((mode, until)) = &self.lock.retention {
            add("x-amz-object-lock-mode", Some(mode));
            add("x-amz-object-lock-retain-until-date", Some(until));
        }
        add("x-amz-object-lock-legal-hold", self.lock.legal_hold.then(|| "ON".to_owned()).as_ref());
        headers
    }
}

/// Encryption that a bucket gives to objects written without encryption options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BucketEncryption {
    /// Objects are encrypted with this algorithm.
    Default(String),
    /// Objects are not encrypted.
    None,
    /// The service has no encryption.
    Unsupported,
    /// The credentials may not ask.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_customer_key_is_never_printed() {
        let shown = format!("{:?}", CustomerKey::new([7; 32]));

        assert_eq!(shown, "CustomerKey(hidden)");
    }

    #[test]
    fn keys_are_the_same_by_id_or_arn() {
        let shown = Encryption::new("aws:kms", Some("arn:aws:kms:eu-west-1:1:key/abc".to_owned()));

        assert!(shown.satisfies(&Encryption::new("aws:kms", Some("abc".to_owned()))));
        assert!(shown.satisfies(&Encryption::new("aws:kms", None)));
        assert!(shown.satisfies(&Encryption::new("aws:kms", Some("alias/lab".to_owned()))));
        assert!(!shown.satisfies(&Encryption::new("aws:kms", Some("abd".to_owned()))));
        assert!(!shown.satisfies(&Encryption::new("AES256", None)));
        assert!(!Encryption::new("AES256", None).satisfies(&Encryption::new("aws:kms", None)));
    }
    #[test]
    fn a_bucket_key_is_requested_with_the_key_of_kms() {
        let encryption = Encryption { bucket_key: true, ..Encryption::new("aws:kms", Some("abc".to_owned())) };
        let write = WriteOptions { encryption: Some(encryption), ..WriteOptions::default() };

        let headers: Vec<_> = write.headers().into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(
            headers,
            [
                "x-amz-server-side-encryption: aws:kms",
                "x-amz-server-side-encryption-aws-kms-key-id: abc",
                "x-amz-server-side-encryption-bucket-key-enabled: true",
            ]
        );
    }
}
