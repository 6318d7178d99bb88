//! Objects as a record has them, to be compared with what they are now.

use std::num::NonZeroU64;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use seqferry_store::{Checksum, ChecksumAlgorithm};
use seqferry_transfer::{JobItem, RecordedContent, RecordedDigest};

/// A checksum of the record; None of an algorithm that is not known.
fn checksum(algorithm: Option<&str>, value: Option<&str>) -> Option<Checksum> {
    let algorithm = ChecksumAlgorithm::from_name(&algorithm?.to_ascii_uppercase())?;
    value.filter(|value| !value.is_empty()).map(|value| Checksum::from_header(algorithm, value, None))
}

#[pyclass(frozen, eq, name = "RecordedDigest", module = "seqferry._native")]
#[derive(PartialEq)]
pub struct PyRecordedDigest(pub(crate) RecordedDigest);

#[pymethods]
impl PyRecordedDigest {
    #[staticmethod]
    #[pyo3(signature = (size, *, checksum_algorithm, checksum, etag, part_size))]
    fn of(
        size: u64,
        checksum_algorithm: Option<&str>,
        checksum: Option<&str>,
        etag: Option<&str>,
        part_size: Option<u64>,
    ) -> Option<Self> {
        let checksum = self::checksum(checksum_algorithm, checksum);
        RecordedDigest::of(size, checksum.as_ref(), etag, part_size).map(Self)
    }

    #[getter]
    fn name(&self) -> &'static str {
        self.0.name
    }

    #[getter]
    fn value(&self) -> &str {
        &self.0.value
    }

    #[getter]
    fn part_sizes(&self) -> Vec<NonZeroU64> {
        self.0.part_sizes.clone()
    }
}

/// Objects and their record, column by column.
#[pyclass(frozen, module = "seqferry._native")]
pub struct RecordedObjects(pub(crate) Vec<JobItem>);

#[pymethods]
impl RecordedObjects {
    #[new]
    #[pyo3(signature = (*, ids, keys, sizes, etags, target_etags, part_sizes, checksum_algorithms, checksums))]
    #[allow(clippy::too_many_arguments)] // columns
    fn new(
        ids: Vec<u64>,
        keys: Vec<String>,
        sizes: Vec<u64>,
        etags: Vec<String>,
        target_etags: Vec<Option<String>>,
        part_sizes: Vec<Option<u64>>,
        checksum_algorithms: Vec<Option<String>>,
        checksums: Vec<Option<String>>,
    ) -> PyResult<Self> {
        let rows = ids.len();
        let lengths = [keys.len(), sizes.len(), etags.len(), target_etags.len(), part_sizes.len()];
        if lengths.into_iter().chain([checksum_algorithms.len(), checksums.len()]).any(|length| length != rows) {
            return Err(PyValueError::new_err("the columns are of different lengths"));
        }
        let checksums = checksum_algorithms
            .iter()
            .zip(&checksums)
            .map(|(algorithm, value)| checksum(algorithm.as_deref(), value.as_deref()));
        let contents = target_etags.into_iter().zip(part_sizes).zip(checksums);
        let contents = contents.map(|((target_etag, part_size), checksum)| {
            Some(Box::new(RecordedContent { target_etag, part_size, checksum }))
        });
        let objects = ids.into_iter().zip(keys).zip(sizes).zip(etags).zip(contents);
        let item = |((((id, source_key), size), etag), recorded)| JobItem {
            id,
            source_key,
            size,
            etag,
            recorded,
            ..JobItem::default()
        };
        Ok(Self(objects.map(item).collect()))
    }
}
