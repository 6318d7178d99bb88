//! Properties of a target besides bytes: attributes, tags, encryption, access, retention; from the source or explicit.
//!
//! | property | without an option | with one |
//! |---|---|---|
//! | attributes, tags | the source's | others beside them, or instead of them |
//! | encryption | as the source, by the bucket's default or its own kind | as requested; a HEAD must show it |
//! | ACL, grants | the bucket's default | as requested |
//! | Object Lock | the bucket's default; the source's lock is reported as not carried | the source's, or as requested |

use std::fmt;

use seqferry_client::{RequestError, RequestSpec, UploadJournal};
use seqferry_store::{
    Advice, Attributes, BucketEncryption, ChecksumAlgorithm, Encryption, ErrorClass, ObjectLock, ObjectMeta,
    WriteOptions, WrittenObject,
};

use super::{AttemptError, Object, TargetAfterWrite};
use crate::object_outcome::{CopyMethod, FailureClass, ObjectFailure};

/// Rule for the encryption of targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum EncryptionRule {
    /// An encrypted source stays encrypted, by the bucket's default or by its own algorithm.
    #[default]
    Carry,
    /// Encryption requested for all targets.
    Explicit(Encryption),
    /// The bucket's default, which may be no encryption.
    BucketDefault,
}

impl EncryptionRule {
    /// The rule for the options of a user: an algorithm, `none` for the bucket's default, a key of KMS with or without
    /// an S3 Bucket Key, a customer's key.
    ///
    /// # Errors
    /// When two of these exclude each other.
    pub fn of(
        algorithm: Option<&str>,
        kms_key: Option<String>,
        bucket_key: bool,
        has_customer_key: bool,
    ) -> Result<Self, PropertyConflict> {
        if kms_key.is_some() && !algorithm.is_some_and(|algorithm| algorithm.starts_with("aws:kms")) {
            return Err(PropertyConflict::KeyWithoutKms);
        }
        if bucket_key && algorithm != Some("aws:kms") {
            return Err(PropertyConflict::BucketKeyWithoutKms);
        }
        match algorithm {
            None | Some("none") if has_customer_key => {
                Ok(Self::Explicit(Encryption { is_customer: true, ..Encryption::new("AES256", None) }))
            }
            Some(_) if has_customer_key => Err(PropertyConflict::CustomerKeyAndAlgorithm),
            None => Ok(Self::Carry),
            Some("none") => Ok(Self::BucketDefault),
            Some(algorithm) => Ok(Self::Explicit(Encryption { bucket_key, ..Encryption::new(algorithm, kms_key) })),
        }
    }
}

/// Rule for the Object Lock of targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LockRule {
    /// No lock is set. A lock of the source is reported as not carried.
    #[default]
    Name,
    /// The target gets the source's lock.
    Carry,
    /// Object Lock requested for all targets.
    Explicit(ObjectLock),
}

impl LockRule {
    /// The rule for the options of a user: the source's lock, or a retention (mode and time) and a legal hold.
    ///
    /// # Errors
    /// When half of a retention is missing, or both a copied lock and another are requested.
    pub fn of(
        copies: bool,
        mode: Option<String>,
        until: Option<String>,
        legal_hold: bool,
    ) -> Result<Self, PropertyConflict> {
        let retention = match (mode, until) {
            (Some(mode), Some(until)) => Some((mode, until)),
            (None, None) => None,
            _ => return Err(PropertyConflict::HalfOfRetention),
        };
        match (copies, retention.is_some() || legal_hold) {
            (true, true) => Err(PropertyConflict::CopiedLockAndAnother),
            (true, false) => Ok(Self::Carry),
            (false, true) => Ok(Self::Explicit(ObjectLock { retention, legal_hold })),
            (false, false) => Ok(Self::Name),
        }
    }
}

/// Properties that exclude each other, or of which a half is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PropertyConflict {
    /// A customer's key, and an algorithm beside it.
    CustomerKeyAndAlgorithm,
    /// A key of KMS without an algorithm of KMS.
    KeyWithoutKms,
    /// An S3 Bucket Key without `aws:kms`.
    BucketKeyWithoutKms,
    /// A retention without its mode or its time.
    HalfOfRetention,
    /// The source's lock, and another one beside it.
    CopiedLockAndAnother,
}

impl fmt::Display for PropertyConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CustomerKeyAndAlgorithm => "a customer's key and another encryption cannot be had together",
            Self::KeyWithoutKms => "a key of KMS needs an algorithm of KMS",
            Self::BucketKeyWithoutKms => "an S3 Bucket Key needs the algorithm aws:kms",
            Self::HalfOfRetention => "a retention needs both its mode and its time",
            Self::CopiedLockAndAnother => "the source's lock and another one cannot be had together",
        })
    }
}

impl std::error::Error for PropertyConflict {}

/// Properties of targets besides their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    /// Attributes of the source are carried.
    pub carry_attributes: bool,
    /// Attributes beside those of the source, over them where both have one.
    pub attributes: Attributes,
    /// Tags of the source are carried.
    pub carry_tags: bool,
    /// Tags that replace the source's.
    pub tags: Option<Vec<(String, String)>>,
    /// Rule for encryption.
    pub encryption: EncryptionRule,
    /// A canned ACL.
    pub acl: Option<String>,
    /// Grants, as of [`WriteOptions`].
    pub grants: Vec<(String, String)>,
    /// Rule for Object Lock.
    pub lock: LockRule,
    /// Checksum that the service keeps. None: the strongest supported checksum.
    pub checksum: Option<ChecksumAlgorithm>,
}

impl Default for Properties {
    fn default() -> Self {
        Self {
            carry_attributes: true,
            attributes: Attributes::default(),
            carry_tags: true,
            tags: None,
            encryption: EncryptionRule::default(),
            acl: None,
            grants: Vec::new(),
            lock: LockRule::default(),
            checksum: None,
        }
    }
}

impl Properties {
    /// True when a copy in one request needs attributes of its source: attributes to which others are added, or its
    /// lock.
    pub(super) fn needs_source(&self) -> bool {
        self.carry_attributes && self.attributes != Attributes::default() || self.lock == LockRule::Carry
    }

    /// Returns the options of a target that is made of many sources: only the requested ones, none of a source.
    pub fn explicit_options(&self) -> WriteOptions {
        WriteOptions {
            encryption: match &self.encryption {
                EncryptionRule::Explicit(requested) => Some(requested.clone()),
                EncryptionRule::Carry | EncryptionRule::BucketDefault => None,
            },
            acl: self.acl.clone(),
            grants: self.grants.clone(),
            lock: match &self.lock {
                LockRule::Explicit(lock) => lock.clone(),
                LockRule::Name | LockRule::Carry => ObjectLock::default(),
            },
        }
    }

    /// The attributes of a target.
    pub(crate) fn attributes_of(&self, source: &ObjectMeta) -> Attributes {
        let own = &self.attributes;
        let mut found = if self.carry_attributes { source.attributes.clone() } else { Attributes::default() };
        for (to, from) in [
            (&mut found.content_type, &own.content_type),
            (&mut found.content_encoding, &own.content_encoding),
            (&mut found.content_language, &own.content_language),
            (&mut found.content_disposition, &own.content_disposition),
            (&mut found.cache_control, &own.cache_control),
            (&mut found.expires, &own.expires),
            (&mut found.website_redirect, &own.website_redirect),
        ] {
            if from.is_some() {
                to.clone_from(from);
            }
        }
        found.metadata.extend(own.metadata.clone());
        found
    }

    /// Returns the attributes that a copy in one request sends instead of the source's. None: the source's are kept.
    pub(super) fn replaced_attributes(&self, source: Option<&ObjectMeta>) -> Option<Attributes> {
        let replaces = !self.carry_attributes || self.attributes != Attributes::default();
        replaces.then(|| source.map_or_else(|| self.attributes.clone(), |source| self.attributes_of(source)))
    }

    /// Returns the tags that replace the source's. None: the source's are kept.
    pub(super) fn replaced_tags(&self) -> Option<&[(String, String)]> {
        match &self.tags {
            Some(tags) => Some(tags),
            None => (!self.carry_tags).then_some(&[]),
        }
    }
}

/// Encryption and Object Lock of one object, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Protection {
    /// The source was checked.
    has_seen_source: bool,
    /// The source's.
    source: Option<Encryption>,
    /// Encryption requested for the target.
    sent: Option<Encryption>,
    /// The same of Object Lock.
    lock: ObjectLock,
}

impl<J: UploadJournal> Object<'_, J> {
    /// Encryption, access and retention of the target; notes what cannot be carried.
    pub(super) async fn write_options(&mut self, source: Option<&ObjectMeta>) -> Result<WriteOptions, AttemptError> {
        if let Some(source) = source {
            (self.protection.has_seen_source, self.protection.source) = (true, source.encryption.clone());
        }
        self.protection.sent = self.encryption_to_send().await?;
        let properties = &self.policy.properties;
        let lock = match (&properties.lock, source) {
            (LockRule::Explicit(lock), _) => lock.clone(),
            (LockRule::Carry, Some(source)) => source.lock.clone(),
            _ => ObjectLock::default(),
        };
        if let (LockRule::Name, Some(source)) = (&properties.lock, source)
            && !source.lock.is_none()
        {
            self.not_carried.push(format!("Object Lock ({}); {}", source.lock, Advice::CarryLock));
        }
        self.protection.lock = lock.clone();
        Ok(WriteOptions {
            encryption: self.protection.sent.clone(),
            acl: properties.acl.clone(),
            grants: properties.grants.clone(),
            lock,
        })
    }

    /// Returns the encryption of a source that is encrypted on purpose: AWS encrypts every object, which is no property
    /// of the object.
    fn encrypted_source(&self) -> Option<&Encryption> {
        let source = self.protection.source.as_ref()?;
        let by_itself = source.algorithm == "AES256" && !source.is_customer;
        (!by_itself || !self.source.connection().store.is_amazon()).then_some(source)
    }

    /// Choose the encryption to request for the target. None: the bucket's default.
    async fn encryption_to_send(&self) -> Result<Option<Encryption>, AttemptError> {
        if !self.target.capabilities().protection {
            return Ok(None);
        }
        let source = match &self.policy.properties.encryption {
            EncryptionRule::Explicit(requested) => return Ok(Some(requested.clone())),
            EncryptionRule::BucketDefault => return Ok(None),
            EncryptionRule::Carry => self.encrypted_source(),
        };
        let Some(source) = source else { return Ok(None) };
        // Keys of KMS belong to one service.
        let near = self.source.connection().is_same(self.target.connection());
        match self.bucket_encryption(false).await? {
            BucketEncryption::Default(_) => Ok(None),
            // A service that shows it of the source and takes no settings of buckets encrypts by itself.
            BucketEncryption::Unsupported if near && source.algorithm == "AES256" && !source.is_customer => Ok(None),
            BucketEncryption::Unsupported => Err(self.protection_error("the target's service has no encryption")),
            BucketEncryption::None | BucketEncryption::Unknown => {
                let key = source.kms_key.clone().filter(|_| near && source.is_kms());
                Ok(Some(Encryption::new(&source.algorithm, key)))
            }
        }
    }

    /// Returns the default encryption of one side's bucket, asked once for each connection and bucket.
    async fn bucket_encryption(&self, of_source: bool) -> Result<BucketEncryption, AttemptError> {
        let (side, bucket) = if of_source {
            (self.source, &self.policy.source_bucket)
        } else {
            (self.target, &self.policy.target_bucket)
        };
        let ask = async || {
            let call = RequestSpec::read("GetBucketEncryption", bucket);
            match side.call(call, &self.retry_context, async |store| store.bucket_encryption(bucket).await).await {
                Ok(found) => Ok(found),
                Err(RequestError::Failed(_)) => Ok(BucketEncryption::Unknown),
                Err(RequestError::Cancelled) => Err(AttemptError::Cancelled),
            }
        };
        side.quirks().bucket_encryption(bucket).get_or_try_init(ask).await.cloned()
    }

    /// Checks whether a copy in one request, made without a HEAD of its source, may be less encrypted than the
    /// source. Returns the source if it is encrypted.
    pub(super) async fn encrypted_on_arrival(
        &mut self,
        written: &WrittenObject,
    ) -> Result<Option<ObjectMeta>, AttemptError> {
        let unknown = !self.protection.has_seen_source && written.encryption.is_none();
        if !unknown
            || self.policy.properties.encryption != EncryptionRule::Carry
            || !self.source.capabilities().protection
            || self.bucket_encryption(true).await? == BucketEncryption::Unsupported
            // Planning checks a single object with HEAD. The copy is pinned to the ETag that it has found.
            || self.source.quirks().is_plain_object(&self.pinned_source())
        {
            return Ok(None);
        }
        let source = self.head_source().await?;
        (self.protection.has_seen_source, self.protection.source) = (true, source.encryption.clone());
        Ok(self.encrypted_source().is_some().then_some(source))
    }

    /// Requires that the target is encrypted as requested, or as its source is; removes a target that is not.
    pub(super) async fn require_encryption(
        &mut self,
        method: CopyMethod,
        written: &WrittenObject,
    ) -> Result<(), AttemptError> {
        let is_explicit = matches!(self.policy.properties.encryption, EncryptionRule::Explicit(_));
        let wanted = self.protection.sent.clone();
        let source = self.encrypted_source().cloned();
        let rule = &self.policy.properties.encryption;
        if method == CopyMethod::None
            || !self.target.capabilities().protection
            || *rule == EncryptionRule::BucketDefault
            || (wanted.is_none() && source.is_none())
        {
            return Ok(());
        }
        // The reply to the write does not show the requested encryption.
        let found = match written.encryption.clone().filter(|_| !is_explicit) {
            Some(found) => Some(found),
            None => match self.head_written_target().await? {
                TargetAfterWrite::Found(target) if target.etag == written.etag => target.encryption,
                TargetAfterWrite::Found(_) => return Err(self.target_change_error("holds something else")),
                TargetAfterWrite::Gone => return Err(self.target_change_error("is gone")),
                // Write-only access: there is only the reply to the write.
                TargetAfterWrite::Denied => written.encryption.clone(),
            },
        };
        let shown = found.as_ref().map_or_else(|| "no encryption".to_owned(), ToString::to_string);
        let is_as_wanted = match (&found, &wanted) {
            (Some(found), Some(wanted)) => found.satisfies(wanted),
            (found, _) => found.is_some(),
        };
        if !is_as_wanted {
            let left = self.remove_ours(&written.etag).await;
            let how =
                wanted.map_or_else(|| "its source is encrypted".to_owned(), |wanted| format!("{wanted} was sent"));
            return Err(self.protection_error(&format!("{how}, and the target shows {shown}. {left}")));
        }
        if let (Some(source), Some(found)) = (source, found)
            && !is_explicit
            && source.is_kms()
            && !found.is_kms()
        {
            self.not_carried
                .push(format!("encryption {source}: the bucket's default is {found}; {}", Advice::ChooseEncryption));
        }
        Ok(())
    }

    /// Requires that the target is locked as it must be, since some services drop the headers of a copy; removes a
    /// target that is not.
    pub(super) async fn require_lock(
        &mut self,
        method: CopyMethod,
        written: &WrittenObject,
    ) -> Result<(), AttemptError> {
        let wanted = self.protection.lock.clone();
        if method == CopyMethod::None || wanted.is_none() || !self.target.capabilities().protection {
            return Ok(());
        }
        let TargetAfterWrite::Found(target) = self.head_written_target().await? else {
            return Err(self.target_change_error("cannot be checked"));
        };
        if target.etag != written.etag {
            return Err(self.target_change_error("holds something else"));
        }
        if target.lock.satisfies(&wanted) {
            return Ok(());
        }
        let left = self.remove_ours(&written.etag).await;
        let message = format!(
            "{}: {wanted} was sent, and the target does not show it. {left} The bucket needs Object Lock, and the credentials s3:PutObjectRetention and s3:GetObjectRetention.",
            self.target_address()
        );
        let class = FailureClass::Store(ErrorClass::Capability);
        Err(AttemptError::Failed(ObjectFailure::new(class, "NotLocked", "HeadObject", message)))
    }

    /// Notes when the target does not have the requested checksum, by the reply to the write and the HEAD of the
    /// target where one was made. A reply without any checksum decides nothing: not all services return it.
    pub(super) fn note_checksum(&mut self, written: &WrittenObject, seen: Option<&ObjectMeta>) {
        let Some(requested) = self.policy.properties.checksum else { return };
        let answered = written.checksum.as_ref().map(|sum| sum.algorithm);
        let shown = match seen {
            Some(target) if target.shown_checksums.contains(&requested) => return,
            Some(target) => target.shown_checksums.first().copied().or(answered),
            None if answered.is_none() => return,
            None => answered,
        };
        if !self.target.capabilities().protection || shown == Some(requested) {
            return;
        }
        let instead = shown.map_or("none", ChecksumAlgorithm::name);
        self.not_carried
            .push(format!("checksum {requested}: the target shows {instead}", requested = requested.name()));
    }

    /// The target is not, or would not be, encrypted as it must be.
    fn protection_error(&self, how: &str) -> AttemptError {
        let is_explicit = matches!(self.policy.properties.encryption, EncryptionRule::Explicit(_));
        let what = if is_explicit {
            "encryption was requested".to_owned()
        } else {
            let source = self.protection.source.clone();
            format!(
                "{} is encrypted ({})",
                self.source_address(),
                source.map_or_else(String::new, |one| one.to_string())
            )
        };
        let next = if is_explicit { Advice::ChooseOfferedEncryption } else { Advice::CopyUnencrypted };
        let message = format!("{}: {what}; {}. {next}", self.target_address(), how.trim_end_matches('.'));
        AttemptError::Failed(ObjectFailure::new(
            FailureClass::Store(ErrorClass::Capability),
            "NotEncrypted",
            "HeadObject",
            message,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encryption_follows_what_is_asked_for() {
        let key = Some("k".to_owned());
        let customer = Encryption { is_customer: true, ..Encryption::new("AES256", None) };
        for (algorithm, kms_key, has_customer_key, rule) in [
            (None, None, false, Ok(EncryptionRule::Carry)),
            (Some("none"), None, false, Ok(EncryptionRule::BucketDefault)),
            (Some("AES256"), None, false, Ok(EncryptionRule::Explicit(Encryption::new("AES256", None)))),
            (
                Some("aws:kms"),
                key.clone(),
                false,
                Ok(EncryptionRule::Explicit(Encryption::new("aws:kms", key.clone()))),
            ),
            (None, None, true, Ok(EncryptionRule::Explicit(customer.clone()))),
            (Some("none"), None, true, Ok(EncryptionRule::Explicit(customer))),
            (Some("aws:kms"), None, true, Err(PropertyConflict::CustomerKeyAndAlgorithm)),
            (None, key.clone(), false, Err(PropertyConflict::KeyWithoutKms)),
            (Some("AES256"), key.clone(), false, Err(PropertyConflict::KeyWithoutKms)),
        ] {
            assert_eq!(EncryptionRule::of(algorithm, kms_key, false, has_customer_key), rule, "{algorithm:?}");
        }
        let with = Encryption { bucket_key: true, ..Encryption::new("aws:kms", None) };
        for (algorithm, rule) in [
            (Some("aws:kms"), Ok(EncryptionRule::Explicit(with))),
            (Some("aws:kms:dsse"), Err(PropertyConflict::BucketKeyWithoutKms)),
            (Some("AES256"), Err(PropertyConflict::BucketKeyWithoutKms)),
            (None, Err(PropertyConflict::BucketKeyWithoutKms)),
        ] {
            assert_eq!(EncryptionRule::of(algorithm, None, true, false), rule, "{algorithm:?}");
        }
    }

    #[test]
    fn half_of_a_retention_is_refused() {
        let (mode, until) = (Some("GOVERNANCE".to_owned()), Some("2030-01-01T00:00:00Z".to_owned()));
        let retention = mode.clone().zip(until.clone());
        let explicit = |retention, legal_hold| Ok(LockRule::Explicit(ObjectLock { retention, legal_hold }));

        assert_eq!(LockRule::of(false, None, None, false), Ok(LockRule::Name));
        assert_eq!(LockRule::of(true, None, None, false), Ok(LockRule::Carry));
        assert_eq!(LockRule::of(false, mode.clone(), until.clone(), false), explicit(retention, false));
        assert_eq!(LockRule::of(false, None, None, true), explicit(None, true));
        assert_eq!(LockRule::of(false, mode.clone(), None, true), Err(PropertyConflict::HalfOfRetention));
        assert_eq!(LockRule::of(false, None, until.clone(), false), Err(PropertyConflict::HalfOfRetention));
        assert_eq!(LockRule::of(true, mode, until, false), Err(PropertyConflict::CopiedLockAndAnother));
    }
}
