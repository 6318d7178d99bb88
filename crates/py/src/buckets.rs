//! Calls of the engine as functions of this module: buckets, single objects, removals and open uploads.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use seqferry_store::{ListedVersion, ObjectMeta, ObjectRef, Range, UploadRef, VersionsRequest};

use crate::engine::Engine;
use crate::failure::Failure;
use crate::values::{PyEndpoint, request_error};

/// Attributes of one object.
#[pyclass(frozen, get_all, module = "seqferry._native")]
pub struct ObjectFacts {
    size: u64,
    etag: String,
    last_modified: f64,
    version_id: Option<String>,
    storage_class: Option<String>,
    archived: bool,
    checksum_algorithm: Option<&'static str>,
    checksum: Option<String>,
    content_type: Option<String>,
    content_encoding: Option<String>,
    content_language: Option<String>,
    content_disposition: Option<String>,
    cache_control: Option<String>,
    expires: Option<String>,
    metadata: Vec<(String, String)>,
    tag_count: Option<u32>,
}

impl From<ObjectMeta> for ObjectFacts {
    fn from(meta: ObjectMeta) -> Self {
        let attributes = meta.attributes;
        Self {
            size: meta.size,
            etag: meta.etag,
            last_modified: meta.last_modified,
            version_id: meta.version_id,
            storage_class: meta.storage_class,
            archived: meta.archived,
            checksum_algorithm: meta.checksum.as_ref().map(|sum| sum.algorithm.name()),
            checksum: meta.checksum.map(|sum| sum.value),
            content_type: attributes.content_type,
            content_encoding: attributes.content_encoding,
            content_language: attributes.content_language,
            content_disposition: attributes.content_disposition,
            cache_control: attributes.cache_control,
            expires: attributes.expires,
            metadata: attributes.metadata.into_iter().collect(),
            tag_count: meta.tag_count,
        }
    }
}

/// A version of an object, or a delete marker.
#[pyclass(frozen, get_all, module = "seqferry._native")]
pub struct ObjectVersion {
    key: String,
    version_id: String,
    size: u64,
    etag: String,
    last_modified: f64,
    storage_class: Option<String>,
    is_latest: bool,
    is_delete_marker: bool,
}

impl From<ListedVersion> for ObjectVersion {
    fn from(version: ListedVersion) -> Self {
        Self {
            key: version.object.key,
            version_id: version.version_id,
            size: version.object.size,
            etag: version.object.etag,
            last_modified: version.object.last_modified,
            storage_class: version.object.storage_class,
            is_latest: version.is_latest,
            is_delete_marker: version.is_delete_marker,
        }
    }
}

#[pyfunction]
pub fn list_buckets(py: Python<'_>, engine: &Engine, endpoint: &PyEndpoint) -> PyResult<Vec<(String, f64)>> {
    let engine = engine.here()?;
    let found = py.detach(|| engine.list_buckets(&endpoint.0)).map_err(|error| request_error(&error))?;
    Ok(found.into_iter().map(|bucket| (bucket.name, bucket.created)).collect())
}

#[pyfunction]
pub fn abort_rules(
    py: Python<'_>,
    engine: &Engine,
    endpoint: &PyEndpoint,
    bucket: &str,
) -> PyResult<Vec<(String, u32)>> {
    let engine = engine.here()?;
    let found = py.detach(|| engine.abort_rules(&endpoint.0, bucket)).map_err(|error| request_error(&error))?;
    Ok(found.into_iter().map(|rule| (rule.prefix, rule.days)).collect())
}

#[pyfunction]
pub fn create_bucket(py: Python<'_>, engine: &Engine, endpoint: &PyEndpoint, bucket: &str) -> PyResult<()> {
    let engine = engine.here()?;
    py.detach(|| engine.create_bucket(&endpoint.0, bucket)).map_err(|error| request_error(&error))
}

#[pyfunction]
pub fn delete_bucket(py: Python<'_>, engine: &Engine, endpoint: &PyEndpoint, bucket: &str) -> PyResult<()> {
    let engine = engine.here()?;
    py.detach(|| engine.delete_bucket(&endpoint.0, bucket)).map_err(|error| request_error(&error))
}

#[pyfunction]
#[pyo3(signature = (engine, endpoint, bucket, prefix, after=None))]
#[allow(clippy::type_complexity)] // a page, and where the next one begins
pub fn list_versions(
    py: Python<'_>,
    engine: &Engine,
    endpoint: &PyEndpoint,
    bucket: String,
    prefix: String,
    after: Option<(String, Option<String>)>,
) -> PyResult<(Vec<ObjectVersion>, Option<(String, Option<String>)>)> {
    let engine = engine.here()?;
    let request = VersionsRequest { bucket, prefix, after };
    let page = py.detach(|| engine.versions_page(&endpoint.0, &request)).map_err(|error| request_error(&error))?;
    Ok((page.versions.into_iter().map(ObjectVersion::from).collect(), page.next))
}

#[pyfunction]
#[pyo3(signature = (engine, endpoint, bucket, key, *, version_id=None, put=false, seconds=3600))]
#[allow(clippy::too_many_arguments)] // keyword arguments, one fact each
pub fn presign(
    py: Python<'_>,
    engine: &Engine,
    endpoint: &PyEndpoint,
    bucket: &str,
    key: &str,
    version_id: Option<String>,
    put: bool,
    seconds: u64,
) -> PyResult<String> {
    let engine = engine.here()?;
    let object = ObjectRef::new(bucket, key).at_version(version_id.as_deref());
    py.detach(|| engine.presign(&endpoint.0, object, put, seconds)).map_err(|error| request_error(&error))
}

#[pyfunction]
#[pyo3(signature = (engine, endpoint, bucket, key, version_id=None))]
pub fn object_facts(
    py: Python<'_>,
    engine: &Engine,
    endpoint: &PyEndpoint,
    bucket: &str,
    key: &str,
    version_id: Option<String>,
) -> PyResult<ObjectFacts> {
    let engine = engine.here()?;
    let object = ObjectRef::new(bucket, key).at_version(version_id.as_deref());
    py.detach(|| engine.head_object(&endpoint.0, object)).map(ObjectFacts::from).map_err(|error| request_error(&error))
}

#[pyfunction]
#[pyo3(signature = (engine, endpoint, bucket, key, *, etag, version_id, first, last))]
#[allow(clippy::too_many_arguments)] // keyword arguments, one fact each
pub fn read_range<'py>(
    py: Python<'py>,
    engine: &Engine,
    endpoint: &PyEndpoint,
    bucket: &str,
    key: &str,
    etag: &str,
    version_id: Option<String>,
    first: u64,
    last: u64,
) -> PyResult<Bound<'py, PyBytes>> {
    let engine = engine.here()?;
    let object = ObjectRef::new(bucket, key).at_version(version_id.as_deref());
    let read = py.detach(|| engine.read_range(&endpoint.0, object, etag, Range { first, last }));
    Ok(PyBytes::new(py, &read.map_err(|error| request_error(&error))?))
}

#[pyfunction]
pub fn list_uploads(
    py: Python<'_>,
    engine: &Engine,
    endpoint: &PyEndpoint,
    bucket: &str,
    prefix: &str,
) -> PyResult<Vec<(String, String, f64)>> {
    let engine = engine.here()?;
    let found =
        py.detach(|| engine.list_uploads(&endpoint.0, bucket, prefix)).map_err(|error| request_error(&error))?;
    Ok(found.into_iter().map(|upload| (upload.key, upload.upload_id, upload.initiated)).collect())
}

/// Uploads in this bucket, from their keys and ids.
fn upload_refs<'a>(bucket: &'a str, uploads: &'a [(String, String)]) -> Vec<UploadRef<'a>> {
    uploads.iter().map(|(key, id)| UploadRef::new(bucket, key, id)).collect()
}

#[pyfunction]
pub fn upload_sizes(
    py: Python<'_>,
    engine: &Engine,
    endpoint: &PyEndpoint,
    bucket: &str,
    uploads: Vec<(String, String)>,
) -> PyResult<Vec<Option<(u64, u64)>>> {
    let engine = engine.here()?;
    let found = py
        .detach(|| engine.upload_sizes(&endpoint.0, &upload_refs(bucket, &uploads)))
        .map_err(|error| request_error(&error))?;
    Ok(found.into_iter().map(|size| size.map(|size| (size.bytes, size.parts))).collect())
}

#[pyfunction]
#[pyo3(signature = (engine, endpoint, bucket, uploads, *, epoch=None))]
pub fn abort_uploads(
    py: Python<'_>,
    engine: &Engine,
    endpoint: &PyEndpoint,
    bucket: &str,
    uploads: Vec<(String, String)>,
    epoch: Option<u64>,
) -> PyResult<Vec<Option<Failure>>> {
    let engine = engine.here()?;
    let ended = py
        .detach(|| engine.abort_uploads(&endpoint.0, &upload_refs(bucket, &uploads), epoch))
        .map_err(|error| request_error(&error))?;
    Ok(ended.iter().map(|error| error.as_ref().map(Failure::from)).collect())
}
