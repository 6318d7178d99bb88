//! Values that cross the line between Python and Rust.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyDict;
use seqferry_client::{EndpointSpec, KeyLookup, RecordedUpload, RequestError};
use seqferry_rows::EventBatch;
use seqferry_store::{
    CustomerKey, DiskOptions, EndpointOptions, ListedObject, ObjectMeta, PageCache, Permissions, ResolvedSettings,
    StoreError, Symlinks, address,
};
use seqferry_transfer::verification::PartOptions;
use seqferry_transfer::{
    CopyLimits, DataPath, FoundCopy, IfExists, JobEvent, JobItem, JobRequest, Policy, VerificationLevel,
    VerificationRule,
};

use crate::EngineError;
use crate::failure::Failure;
use crate::properties::PyProperties;

/// A failed request as Python sees it.
fn engine_error(error: &StoreError) -> PyErr {
    let Failure { error_class, error_code, operation, message, job_wide } = Failure::from(error);
    EngineError::new_err((message, error_class, error_code, operation, job_wide))
}

/// A request that was abandoned, as Python sees it.
pub(crate) fn request_error(error: &RequestError) -> PyErr {
    match error {
        RequestError::Failed(error) => engine_error(error),
        RequestError::Cancelled => {
            EngineError::new_err((error.to_string(), error.class().as_str(), "Cancelled", "", false))
        }
    }
}

/// A timeout as Python gives it: nothing for a negative one, the longest duration for one that none can hold.
pub(crate) fn seconds(timeout: f64) -> Duration {
    Duration::try_from_secs_f64(timeout.max(0.0)).unwrap_or(Duration::MAX)
}

/// The word among these, or an error that names them.
pub(crate) fn choose<T: Copy>(what: &str, word: &str, choices: &[(&str, T)]) -> PyResult<T> {
    let found = choices.iter().find(|(known, _)| *known == word).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let known: Vec<&str> = choices.iter().map(|(known, _)| *known).collect();
        PyValueError::new_err(format!("{what} must be one of {}, and is {word}", known.join(", ")))
    })
}

pub(crate) fn exists_policy(word: &str) -> PyResult<IfExists> {
    let known = [
        ("same", IfExists::Same),
        ("size", IfExists::Size),
        ("skip", IfExists::Skip),
        ("overwrite", IfExists::Overwrite),
        ("fail", IfExists::Fail),
    ];
    choose("if_exists", word, &known)
}

#[pyclass(frozen, name = "Endpoint", module = "seqferry._native")]
#[derive(Clone)]
pub struct PyEndpoint(pub(crate) EndpointSpec);

#[pymethods]
impl PyEndpoint {
    #[new]
    #[pyo3(signature = (*, endpoint_url=None, region=None, profile=None, anonymous=false, resolved=false,
                        ca_bundle=None, use_fips=false, use_dual_stack=false, path_style=None, accelerate=false,
                        sign_bodies=false, request_payer=false, attempts=None, customer_key=None, copy_source_key=None,
                        disk=false, symlinks="follow", empty_directories=false, page_cache=false,
                        preserve_permissions=false))]
    #[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)] // keyword arguments, one fact each
    fn new(
        endpoint_url: Option<String>,
        region: Option<String>,
        profile: Option<String>,
        anonymous: bool,
        resolved: bool,
        ca_bundle: Option<String>,
        use_fips: bool,
        use_dual_stack: bool,
        path_style: Option<bool>,
        accelerate: bool,
        sign_bodies: bool,
        request_payer: bool,
        attempts: Option<u32>,
        customer_key: Option<[u8; 32]>,
        copy_source_key: Option<[u8; 32]>,
        disk: bool,
        symlinks: &str,
        empty_directories: bool,
        page_cache: bool,
        preserve_permissions: bool,
    ) -> PyResult<Self> {
        let known = [("follow", Symlinks::Follow), ("skip", Symlinks::Skip), ("keep", Symlinks::Keep)];
        let symlinks = choose("symlinks", symlinks, &known)?;
        Ok(Self(if disk {
            EndpointSpec::Disk(DiskOptions {
                symlinks,
                empty_folders: empty_directories,
                cache: if page_cache { PageCache::Use } else { PageCache::Bypass },
                permissions: if preserve_permissions { Permissions::Preserve } else { Permissions::Narrow },
                ..DiskOptions::default()
            })
        } else {
            let settings =
                ResolvedSettings { ca_bundle, use_fips, use_dual_stack, path_style, accelerate, sign_bodies };
            let resolved = settings.if_resolved(resolved).map_err(PyValueError::new_err)?;
            EndpointSpec::Service(EndpointOptions {
                endpoint_url,
                region,
                profile,
                anonymous,
                resolved,
                credentials: None,
                request_payer,
                attempts,
                customer_key: customer_key.map(CustomerKey::new),
                copy_source_key: copy_source_key.map(CustomerKey::new),
            })
        }))
    }
}

#[pyclass(frozen, get_all, module = "seqferry._native")]
pub struct ObjectInfo {
    key: String,
    size: u64,
    etag: String,
    last_modified: f64,
    changed: f64,
    version_id: Option<String>,
    storage_class: Option<String>,
    refusal: Option<(String, String)>,
}

impl From<ListedObject> for ObjectInfo {
    fn from(object: ListedObject) -> Self {
        Self {
            key: object.key,
            size: object.size,
            etag: object.etag,
            last_modified: object.last_modified,
            changed: 0.0,
            version_id: None,
            storage_class: object.storage_class,
            refusal: object.refusal.map(|refusal| (refusal.code.to_owned(), refusal.message)),
        }
    }
}

impl ObjectInfo {
    /// Attributes of the object under a key, or the refusal of something that is no object; None for an absent key.
    pub(crate) fn of(key: String, found: KeyLookup) -> Option<Self> {
        match found {
            KeyLookup::Object(meta) => Some(Self::of_head(key, *meta)),
            KeyLookup::NoObject(error) => {
                let refusal = Some((error.code, error.message));
                Some(Self { refusal, ..Self::of_head(key, ObjectMeta::default()) })
            }
            KeyLookup::Absent => None,
        }
    }

    fn of_head(key: String, meta: ObjectMeta) -> Self {
        Self {
            key,
            size: meta.size,
            etag: meta.etag,
            last_modified: meta.last_modified,
            changed: meta.changed,
            version_id: meta.version_id,
            storage_class: meta.storage_class,
            refusal: None,
        }
    }
}

#[pyclass(frozen, module = "seqferry._native")]
pub struct CopyPolicy {
    pub(crate) source: EndpointSpec,
    pub(crate) target: EndpointSpec,
    pub(crate) policy: Policy,
}

#[pymethods]
impl CopyPolicy {
    #[new]
    #[pyo3(signature = (*, source, source_bucket, target, target_bucket, source_prefix="", target_prefix="",
                        if_exists="same", verify="auto", part_size=None, copy_threshold=None, storage_class=None,
                        properties=None, md5=false, data_path="copy", resumed=false, target_was_empty=false, since=0.0, only_clean=false,
                        compare_only=false, ignore_times=false, in_order=false, no_sync=false, transfer="", settle_seconds=0.0))]
    #[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)] // keyword arguments, one fact each
    fn new(
        source: &PyEndpoint,
        source_bucket: String,
        target: &PyEndpoint,
        target_bucket: String,
        source_prefix: &str,
        target_prefix: &str,
        if_exists: &str,
        verify: &str,
        part_size: Option<u64>,
        copy_threshold: Option<u64>,
        storage_class: Option<String>,
        properties: Option<&PyProperties>,
        md5: bool,
        data_path: &str,
        resumed: bool,
        target_was_empty: bool,
        since: f64,
        only_clean: bool,
        compare_only: bool,
        ignore_times: bool,
        in_order: bool,
        no_sync: bool,
        transfer: &str,
        settle_seconds: f64,
    ) -> PyResult<Self> {
        let if_exists = exists_policy(if_exists)?;
        let verifying = [
            ("auto", VerificationRule::Auto),
            ("checksum", VerificationRule::Checksum),
            ("content", VerificationRule::Content),
        ];
        let verify = choose("verify", verify, &verifying)?;
        let data_path = choose("data_path", data_path, &[("copy", DataPath::Copy), ("stream", DataPath::Stream)])?;
        let policy = Policy {
            transfer: transfer.to_owned(),
            source_bucket,
            target_bucket,
            source_prefix: source_prefix.to_owned(),
            target_prefix: target_prefix.to_owned(),
            data_path,
            if_exists,
            verify,
            part_options: PartOptions { part_size, copy_threshold },
            storage_class,
            properties: properties.map(|found| found.0.clone()).unwrap_or_default(),
            md5,
            resumed,
            target_was_empty,
            since,
            only_clean,
            compare_only,
            ignore_times,
            in_order,
            max_objects: None,
            settle: seconds(settle_seconds),
            defer_sync: false,
            no_sync,
            limits: CopyLimits::default(),
        };
        Ok(Self { source: source.0.clone(), target: target.0.clone(), policy })
    }
}

impl CopyPolicy {
    /// A job of these items, which writes only within this epoch of the lease.
    pub(crate) fn request(&self, items: &[PyRef<'_, CopyItem>], epoch: Option<u64>) -> JobRequest<'_> {
        let Self { source, target, policy } = self;
        JobRequest { source, target, policy: policy.clone(), items: CopyItem::all(items), epoch }
    }
}

#[pyclass(frozen, module = "seqferry._native")]
pub struct CopyItem(pub(crate) JobItem);

#[pymethods]
impl CopyItem {
    #[new]
    #[pyo3(signature = (*, id, source_key, target_key, size, etag, version_id=None, target_absent=false, upload_id=None,
                        part_size=None, upload_etag=None, written=None))]
    #[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)] // keyword arguments, one fact each
    fn new(
        id: u64,
        source_key: String,
        target_key: String,
        size: u64,
        etag: String,
        version_id: Option<String>,
        target_absent: bool,
        upload_id: Option<String>,
        part_size: Option<u64>,
        upload_etag: Option<String>,
        written: Option<&PyFoundCopy>,
    ) -> PyResult<Self> {
        let upload = RecordedUpload::of(upload_id, part_size, upload_etag).map_err(PyValueError::new_err)?;
        let written = written.map(|found| found.0.clone());
        Ok(Self(JobItem {
            id,
            source_key,
            target_key,
            size,
            etag,
            version_id,
            target_absent,
            streamed: false,
            upload,
            written,
            recorded: None,
        }))
    }
}

impl CopyItem {
    /// Items of the engine.
    pub(crate) fn all(items: &[PyRef<'_, Self>]) -> Vec<JobItem> {
        items.iter().map(|item| item.0.clone()).collect()
    }
}

#[pyclass(frozen, name = "FoundCopy", module = "seqferry._native")]
pub struct PyFoundCopy(FoundCopy);

#[pymethods]
impl PyFoundCopy {
    #[new]
    #[pyo3(signature = (*, etag, version_id, verified))]
    fn new(etag: String, version_id: Option<String>, verified: &str) -> PyResult<Self> {
        let levels = [
            ("size", VerificationLevel::Size),
            ("etag", VerificationLevel::Etag),
            ("checksum", VerificationLevel::Checksum),
        ];
        let verified = choose("verified", verified, &levels)?;
        Ok(Self(FoundCopy { etag, version_id, verified }))
    }
}

#[pyfunction]
pub fn pack_shards(names: Vec<String>, sizes: Vec<u64>, shard_size: u64) -> PyResult<Vec<usize>> {
    seqferry_transfer::pack::shards(&names, &sizes, shard_size).map_err(PyValueError::new_err)
}

#[pyclass(frozen, get_all, module = "seqferry._native")]
#[derive(Clone)]
pub struct UploadRecord {
    id: u64,
    upload_id: String,
    part_size: u64,
    etag: Option<String>,
}

/// Events of a job since the last call of `Job.wait`.
#[pyclass(frozen, module = "seqferry._native")]
pub struct Events(EventBatch);

impl Events {
    pub(crate) fn of(events: Vec<JobEvent>) -> Self {
        Self(events.into_iter().collect())
    }
}

#[pymethods]
impl Events {
    #[getter]
    fn uploads(&self) -> Vec<UploadRecord> {
        let record = |(id, upload): &(u64, RecordedUpload)| {
            let RecordedUpload { upload_id, part_size, etag } = upload.clone();
            UploadRecord { id: *id, upload_id, part_size, etag }
        };
        self.0.uploads.iter().map(record).collect()
    }

    #[getter]
    fn cancelled(&self) -> Vec<u64> {
        self.0.cancelled.clone()
    }

    #[getter]
    fn ended(&self) -> usize {
        self.0.results.rows()
    }

    fn results<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (name, text) in self.0.results.columns() {
            columns.set_item(name, text)?;
        }
        Ok(columns)
    }
}

#[pyclass(frozen, get_all, module = "seqferry._native")]
#[derive(Clone)]
pub struct ActiveObject {
    id: u64,
    key: String,
    size: u64,
    bytes_done: u64,
    seconds: f64,
}

#[pyclass(frozen, module = "seqferry._native")]
pub struct Progress(pub(crate) seqferry_transfer::Progress);

#[pymethods]
impl Progress {
    #[getter]
    fn bytes_done(&self) -> u64 {
        self.0.bytes_done
    }

    #[getter]
    fn objects_done(&self) -> u64 {
        self.0.objects_done
    }

    #[getter]
    fn objects_failed(&self) -> u64 {
        self.0.objects_failed
    }

    #[getter]
    fn objects_skipped(&self) -> u64 {
        self.0.objects_skipped
    }

    #[getter]
    fn objects_active(&self) -> u64 {
        self.0.objects_active
    }

    #[getter]
    fn requests(&self) -> u64 {
        self.0.requests
    }

    #[getter]
    fn in_flight(&self) -> u64 {
        self.0.in_flight
    }

    #[getter]
    fn retries(&self) -> u64 {
        self.0.retries
    }

    #[getter]
    fn throttled(&self) -> u64 {
        self.0.throttled
    }

    #[getter]
    fn slowest(&self) -> Vec<ActiveObject> {
        let active = |object: &seqferry_transfer::ActiveObject| ActiveObject {
            id: object.id,
            key: object.key.clone(),
            size: object.size,
            bytes_done: object.bytes_done,
            seconds: object.seconds,
        };
        self.0.slowest.iter().map(active).collect()
    }
}

#[pyfunction]
pub fn endpoint_fault(url: &str) -> Option<&'static str> {
    address::check(url).err().map(address::AddressFault::as_str)
}

#[pyfunction]
pub fn endpoint_identity(url: &str) -> Option<String> {
    address::identity(url)
}

#[pyfunction]
pub fn path_refusal(key: &str, size: u64) -> Option<(&'static str, String)> {
    seqferry_store::path_refusal(key, size)
}

#[pyfunction]
pub fn equal_as_listed(source: (u64, PyBackedStr), target: (u64, PyBackedStr)) -> Option<&'static str> {
    seqferry_transfer::verification::equal_as_listed((source.0, &source.1), (target.0, &target.1))
        .map(seqferry_transfer::VerificationLevel::as_str)
}
