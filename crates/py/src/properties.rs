//! Properties of objects besides their bytes, converted from Python.

use std::collections::{BTreeMap, HashMap};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use seqferry_store::{Attributes, ChecksumAlgorithm, Encryption, ObjectLock};
use seqferry_transfer::{EncryptionRule, LockRule, Properties};

#[pyclass(frozen, name = "Properties", module = "seqferry._native")]
pub struct PyProperties(pub(crate) Properties);

#[pymethods]
impl PyProperties {
    #[new]
    #[pyo3(signature = (*, carry_attributes=true, attributes=None, metadata=None, carry_tags=true, tags=None, sse=None,
                        sse_kms_key_id=None, sse_c=false, acl=None, grants=None, copy_lock=false, lock_mode=None,
                        lock_until=None, legal_hold=false, checksum=None))]
    #[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)] // keyword arguments, one fact each
    fn new(
        carry_attributes: bool,
        attributes: Option<HashMap<String, String>>,
        metadata: Option<BTreeMap<String, String>>,
        carry_tags: bool,
        tags: Option<Vec<(String, String)>>,
        sse: Option<&str>,
        sse_kms_key_id: Option<String>,
        sse_c: bool,
        acl: Option<String>,
        grants: Option<Vec<(String, String)>>,
        copy_lock: bool,
        lock_mode: Option<String>,
        lock_until: Option<String>,
        legal_hold: bool,
        checksum: Option<&str>,
    ) -> PyResult<Self> {
        let mut given = attributes.unwrap_or_default();
        let mut attribute = |name: &str| given.remove(name);
        let attributes = Attributes {
            content_type: attribute("content_type"),
            content_encoding: attribute("content_encoding"),
            content_language: attribute("content_language"),
            content_disposition: attribute("content_disposition"),
            cache_control: attribute("cache_control"),
            expires: attribute("expires"),
            website_redirect: None,
            metadata: metadata.unwrap_or_default(),
        };
        if let Some(unknown) = given.keys().next() {
            return Err(PyValueError::new_err(format!("no attribute: {unknown}")));
        }
        let encryption = match sse {
            _ if sse_c => EncryptionRule::Asked(Encryption { is_customer: true, ..Encryption::new("AES256", None) }),
            None => EncryptionRule::Carry,
            Some("none") => EncryptionRule::BucketDefault,
            Some(algorithm) => EncryptionRule::Asked(Encryption::new(algorithm, sse_kms_key_id)),
        };
        let retention = lock_mode.zip(lock_until);
        let lock = match (copy_lock, retention.is_some() || legal_hold) {
            (true, _) => LockRule::Carry,
            (false, true) => LockRule::Asked(ObjectLock { retention, legal_hold }),
            (false, false) => LockRule::Name,
        };
        let checksum = match checksum {
            None => None,
            Some(name) => Some(
                ChecksumAlgorithm::ALL
                    .into_iter()
                    .find(|algorithm| algorithm.name() == name)
                    .ok_or_else(|| PyValueError::new_err(format!("no checksum: {name}")))?,
            ),
        };
        Ok(Self(Properties {
            carry_attributes,
            attributes,
            carry_tags,
            tags,
            encryption,
            acl,
            grants: grants.unwrap_or_default(),
            lock,
            checksum,
        }))
    }
}
