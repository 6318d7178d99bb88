//! Members of archives, as Python sees them.

use pyo3::prelude::*;
use seqferry_archive::ReadOptions;
use seqferry_archive::tree::{DuplicatePolicy, LinkPolicy};
use seqferry_transfer::unpack::{self, IndexUse};

use crate::values::{choose, request_error, seconds};

#[pyclass(frozen, module = "seqferry._native")]
pub struct ScanOptions(pub(crate) unpack::ScanOptions);

#[pymethods]
impl ScanOptions {
    #[new]
    #[pyo3(signature = (*, index="auto", links="inside", duplicates="refuse", missing_end=false, concatenated=false,
                        trailing_bytes=false, lenient_sizes=false, proven=false))]
    #[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)] // keyword arguments, one fact each
    fn new(
        index: &str,
        links: &str,
        duplicates: &str,
        missing_end: bool,
        concatenated: bool,
        trailing_bytes: bool,
        lenient_sizes: bool,
        proven: bool,
    ) -> PyResult<Self> {
        let read = ReadOptions { missing_end, concatenated, trailing_bytes, lenient_sizes, ..ReadOptions::default() };
        Ok(Self(unpack::ScanOptions {
            index: choose("index", index, &[("auto", IndexUse::Auto), ("never", IndexUse::Never)])?,
            links: choose(
                "links",
                links,
                &[("inside", LinkPolicy::Inside), ("skip", LinkPolicy::Exclude), ("all", LinkPolicy::All)],
            )?,
            duplicates: choose(
                "duplicates",
                duplicates,
                &[("refuse", DuplicatePolicy::Refuse), ("last", DuplicatePolicy::Last)],
            )?,
            read,
            proven,
            ..unpack::ScanOptions::default()
        }))
    }
}

#[pyclass(frozen, module = "seqferry._native")]
pub struct ArchiveScan(pub(crate) unpack::ArchiveScan);

#[pymethods]
impl ArchiveScan {
    fn next(&self, py: Python<'_>, timeout: f64) -> PyResult<Option<Vec<FoundMember>>> {
        let page = py.detach(|| self.0.next(seconds(timeout))).map_err(|error| request_error(&error))?;
        Ok(page.map(|members| members.into_iter().map(FoundMember::from).collect()))
    }

    fn close(&self) {
        self.0.close();
    }
}

#[pyclass(frozen, module = "seqferry._native")]
pub struct ArchiveCheck(pub(crate) unpack::ArchiveCheck);

#[pymethods]
impl ArchiveCheck {
    fn next(&self, py: Python<'_>, timeout: f64) -> PyResult<Option<CheckReport>> {
        let report = py.detach(|| self.0.next(seconds(timeout))).map_err(|error| request_error(&error))?;
        Ok(report.map(|report| {
            let unpack::CheckReport { members, bytes, compared, indexed, problems } = report;
            CheckReport { members, bytes, compared, indexed, problems }
        }))
    }
}

#[pyclass(frozen, get_all, module = "seqferry._native")]
pub struct CheckReport {
    members: u64,
    bytes: u64,
    compared: u64,
    indexed: bool,
    problems: Vec<(String, String)>,
}

#[pyclass(frozen, get_all, module = "seqferry._native")]
pub struct FoundMember {
    name: String,
    path: String,
    kind: &'static str,
    size: u64,
    place: String,
    etag: String,
    modified: f64,
    modified_ns: i128,
    mode: u32,
    link: String,
    crc32c: Option<u32>,
    implied: bool,
    refusal: Option<(String, String)>,
    left_out: bool,
}

impl From<unpack::FoundMember> for FoundMember {
    fn from(found: unpack::FoundMember) -> Self {
        let unpack::FoundMember { name, path, kind, size, location, etag, modified, mode, .. } = found;
        let (link, crc32c, implied, modified_ns) = (found.link, found.crc32c, found.implied, found.modified_ns);
        let (refusal, left_out) = (found.refusal, found.left_out);
        Self {
            name,
            path,
            kind,
            size,
            place: location,
            etag,
            modified,
            modified_ns,
            mode,
            link,
            crc32c,
            implied,
            refusal,
            left_out,
        }
    }
}
