//! Properties of objects besides their bytes, converted from Python.

use std::collections::{BTreeMap, HashMap};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use seqferry_store::{Attributes, ChecksumAlgorithm};
use seqferry_transfer::{EncryptionRule, LockRule, Properties, PropertyConflict};

#[pyclass(frozen, name = "Properties", module = "seqferry._native")]
pub struct PyProperties(pub(crate) Properties);

#[pymethods]
impl PyProperties {
    #[new]
    #[pyo3(signature = (*, carry_attributes=true, attributes=None, metadata=None, carry_tags=true, tags=None, sse=None,
                        sse_kms_key_id=None, bucket_key_enabled=false, sse_c=false, acl=None, grants=None, copy_lock=false, lock_mode=None,
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
        bucket_key_enabled: bool,
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
        let conflict = |conflict: PropertyConflict| PyValueError::new_err(conflict.to_string());
        let encryption = EncryptionRule::of(sse, sse_kms_key_id, bucket_key_enabled, sse_c).map_err(conflict)?;
        let lock = LockRule::of(copy_lock, lock_mode, lock_until, legal_hold).map_err(conflict)?;
        let unknown = |name: &str| PyValueError::new_err(format!("no checksum: {name}"));
        let checksum =
            checksum.map(|name| ChecksumAlgorithm::from_name(name).ok_or_else(|| unknown(name))).transpose()?;
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
