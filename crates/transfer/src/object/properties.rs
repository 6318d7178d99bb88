//! Properties of a target besides bytes: attributes, tags, encryption, access, retention; from the source or asked.
//!
//! | property | without an option | with one |
//! |---|---|---|
//! | attributes, tags | the source's | others beside them, or instead of them |
//! | encryption | an encrypted source stays encrypted, with the bucket's default or with its own kind | as asked, and a HEAD must show it |
//! | ACL, grants | the bucket's default | as asked |
//! | Object Lock | the bucket's default; the source's is named among what is not carried | the source's, or as asked |

use seqferry_client::{RequestError, RequestSpec};
use seqferry_store::{
    Attributes, BucketEncryption, ChecksumAlgorithm, Encryption, ErrorClass, ObjectLock, ObjectMeta, WriteOptions,
    WrittenObject,
};

use super::{AttemptError, Journal, Object, TargetAfterWrite};
use crate::outcome::{FailureClass, Method, ObjectFailure};

/// Rule for the encryption of targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum EncryptionRule {
    /// An encrypted source stays encrypted, by the bucket's default or by its own algorithm.
    #[default]
    Carry,
    /// As asked.
    Asked(Encryption),
    /// As the bucket does by default, be it not at all.
    BucketDefault,
}

/// Rule for the Object Lock of targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LockRule {
    /// It is named among what is not carried.
    #[default]
    Name,
    /// The target gets the source's.
    Carry,
    /// As asked.
    Asked(ObjectLock),
}

/// Properties of targets besides their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    /// Attributes of the source are carried.
    pub carry_attributes: bool,
    /// Attributes beside those of the source, over them where both have one.
    pub attributes: Attributes,
    /// Tags of the source are carried.
    pub carry_tags: bool,
    /// These tags instead of the source's.
    pub tags: Option<Vec<(String, String)>>,
    /// Encryption.
    pub encryption: EncryptionRule,
    /// A canned ACL.
    pub acl: Option<String>,
    /// Grants, as of [`WriteOptions`].
    pub grants: Vec<(String, String)>,
    /// Object Lock.
    pub lock: LockRule,
    /// Checksum that the service keeps. None: the one that proves most.
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
    /// True when a copy in one request needs facts of its source: attributes to which others are added, or its lock.
    pub(super) fn needs_source(&self) -> bool {
        self.carry_attributes && self.attributes != Attributes::default() || self.lock == LockRule::Carry
    }

    /// Returns the options of a target that is made of many sources: only those asked for, none of a source.
    pub(crate) fn asked(&self) -> WriteOptions {
        WriteOptions {
            encryption: match &self.encryption {
                EncryptionRule::Asked(asked) => Some(asked.clone()),
                EncryptionRule::Carry | EncryptionRule::BucketDefault => None,
            },
            acl: self.acl.clone(),
            grants: self.grants.clone(),
            lock: match &self.lock {
                LockRule::Asked(lock) => lock.clone(),
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
    /// The source was looked at.
    has_seen_source: bool,
    /// The source's.
    source: Option<Encryption>,
    /// Encryption requested for the target.
    sent: Option<Encryption>,
    /// The same of Object Lock.
    lock: ObjectLock,
}

impl<J: Journal> Object<'_, J> {
    /// Encryption, access and retention of the target; notes what cannot be carried.
    pub(super) async fn write_options(&mut self, source: Option<&ObjectMeta>) -> Result<WriteOptions, AttemptError> {
        if let Some(source) = source {
            (self.protection.has_seen_source, self.protection.source) = (true, source.encryption.clone());
        }
        self.protection.sent = self.encryption_to_send().await?;
        let properties = &self.policy.properties;
        let lock = match (&properties.lock, source) {
            (LockRule::Asked(lock), _) => lock.clone(),
            (LockRule::Carry, Some(source)) => source.lock.clone(),
            _ => ObjectLock::default(),
        };
        if let (LockRule::Name, Some(source)) = (&properties.lock, source)
            && !source.lock.is_none()
        {
            self.not_carried.push(format!("Object Lock ({}); carry it with --object-lock copy", source.lock));
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
        (!by_itself || !self.source.connection().store.encrypts_all()).then_some(source)
    }

    /// Choose the encryption to request for the target. None: the bucket's default.
    async fn encryption_to_send(&self) -> Result<Option<Encryption>, AttemptError> {
        if !self.target.capabilities().protection {
            return Ok(None);
        }
        let source = match &self.policy.properties.encryption {
            EncryptionRule::Asked(asked) => return Ok(Some(asked.clone())),
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
            BucketEncryption::Unsupported => Err(self.unprotected("the target's service has no encryption")),
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
        if let Some(known) = side.quirks().bucket_encryption(bucket) {
            return Ok(known);
        }
        let call = RequestSpec::read("GetBucketEncryption", bucket);
        let found = side.call(call, &self.tries, async |store| store.bucket_encryption(bucket).await).await;
        let found = match found {
            Ok(found) => found,
            Err(RequestError::Failed(_)) => BucketEncryption::Unknown,
            Err(RequestError::Cancelled) => return Err(AttemptError::Cancelled),
        };
        side.quirks().learn_bucket_encryption(bucket, &found);
        Ok(found)
    }

    /// After a copy in one request without a look at its source: finds out if the copy may be less encrypted than the
    /// source. Some: the source, which is encrypted.
    pub(super) async fn encrypted_unseen(
        &mut self,
        written: &WrittenObject,
    ) -> Result<Option<ObjectMeta>, AttemptError> {
        let unknown = !self.protection.has_seen_source && written.encryption.is_none();
        if !unknown
            || self.policy.properties.encryption != EncryptionRule::Carry
            || !self.source.capabilities().protection
            || self.bucket_encryption(true).await? == BucketEncryption::Unsupported
            // Planning looks at a single object. The copy is pinned to the ETag that it has found.
            || self.source.quirks().is_plain_object(&self.pinned())
        {
            return Ok(None);
        }
        let source = self.head_source().await?;
        (self.protection.has_seen_source, self.protection.source) = (true, source.encryption.clone());
        Ok(self.encrypted_source().is_some().then_some(source))
    }

    /// See that the target is encrypted as asked, or as its source is. What is not is removed.
    pub(super) async fn require_encryption(
        &mut self,
        method: Method,
        written: &WrittenObject,
    ) -> Result<(), AttemptError> {
        let asked = matches!(self.policy.properties.encryption, EncryptionRule::Asked(_));
        let wanted = self.protection.sent.clone();
        let source = self.encrypted_source().cloned();
        let rule = &self.policy.properties.encryption;
        if method == Method::None
            || !self.target.capabilities().protection
            || *rule == EncryptionRule::BucketDefault
            || (wanted.is_none() && source.is_none())
        {
            return Ok(());
        }
        // What was asked for is not taken from the answer to the write.
        let told = match written.encryption.clone().filter(|_| !asked) {
            Some(told) => Some(told),
            None => match self.look_back().await? {
                TargetAfterWrite::Found(target) if target.etag == written.etag => target.encryption,
                TargetAfterWrite::Found(_) => return Err(self.target_changed("holds something else")),
                TargetAfterWrite::Gone => return Err(self.target_changed("is gone")),
                // Write-only access: the answer is all there is.
                TargetAfterWrite::Denied => written.encryption.clone(),
            },
        };
        let shown = told.as_ref().map_or_else(|| "no encryption".to_owned(), ToString::to_string);
        let is_as_wanted = match (&told, &wanted) {
            (Some(told), Some(wanted)) => told.satisfies(wanted),
            (told, _) => told.is_some(),
        };
        if !is_as_wanted {
            let left = self.remove_ours(&written.etag).await;
            let how =
                wanted.map_or_else(|| "its source is encrypted".to_owned(), |wanted| format!("{wanted} was sent"));
            return Err(self.unprotected(&format!("{how}, and the target shows {shown}. {left}")));
        }
        if let (Some(source), Some(told)) = (source, told)
            && !asked
            && source.is_kms()
            && !told.is_kms()
        {
            self.not_carried.push(format!("encryption {source}: the bucket's default is {told}; choose with --sse"));
        }
        Ok(())
    }

    /// See that the target is locked as it must be: some services drop the headers of a copy. What is not is removed.
    pub(super) async fn require_lock(&mut self, method: Method, written: &WrittenObject) -> Result<(), AttemptError> {
        let wanted = self.protection.lock.clone();
        if method == Method::None || wanted.is_none() || !self.target.capabilities().protection {
            return Ok(());
        }
        let TargetAfterWrite::Found(target) = self.look_back().await? else {
            return Err(self.target_changed("cannot be looked at"));
        };
        if target.etag != written.etag {
            return Err(self.target_changed("holds something else"));
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

    /// Note when the target does not have the checksum that was asked for, by the answer to the write and a look at the target
    /// where one was made. An answer without any is no proof: not all services tell it there.
    pub(super) fn note_checksum(&mut self, written: &WrittenObject, seen: Option<&ObjectMeta>) {
        let Some(asked) = self.policy.properties.checksum else { return };
        let answered = written.checksum.as_ref().map(|sum| sum.algorithm);
        let shown = match seen {
            Some(target) if target.shown_checksums.contains(&asked) => return,
            Some(target) => target.shown_checksums.first().copied().or(answered),
            None if answered.is_none() => return,
            None => answered,
        };
        if !self.target.capabilities().protection || shown == Some(asked) {
            return;
        }
        let instead = shown.map_or("none", ChecksumAlgorithm::name);
        self.not_carried.push(format!("checksum {asked}: the target shows {instead}", asked = asked.name()));
    }

    /// The target is not, or would not be, encrypted as it must be.
    fn unprotected(&self, how: &str) -> AttemptError {
        let asked = matches!(self.policy.properties.encryption, EncryptionRule::Asked(_));
        let what = if asked {
            "encryption was asked for".to_owned()
        } else {
            let source = self.protection.source.clone();
            format!(
                "{} is encrypted ({})",
                self.source_address(),
                source.map_or_else(String::new, |one| one.to_string())
            )
        };
        let next = if asked { "Choose an --sse that the storage has." } else { "To copy it all the same: --sse none." };
        let message = format!("{}: {what}; {}. {next}", self.target_address(), how.trim_end_matches('.'));
        AttemptError::Failed(ObjectFailure::new(
            FailureClass::Store(ErrorClass::Capability),
            "NotEncrypted",
            "HeadObject",
            message,
        ))
    }
}
