//! Files of S3 Inventory in Parquet.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use seqferry_inventory::{InventoryError, InventoryRow};

/// Key, size, `ETag`, milliseconds since the epoch, storage class, whether it is the current version, and whether it is
/// a delete marker.
type PyRow = (String, Option<u64>, Option<String>, Option<i64>, Option<String>, Option<bool>, Option<bool>);

fn row_of(row: InventoryRow) -> PyRow {
    (row.key, row.size, row.etag, row.last_modified, row.storage_class, row.is_latest, row.is_delete_marker)
}

fn fault(error: &InventoryError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

#[pyclass(frozen, module = "seqferry._native")]
pub struct InventoryRows(Mutex<seqferry_inventory::InventoryRows>);

#[pymethods]
impl InventoryRows {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| seqferry_inventory::InventoryRows::open(&path))
            .map(|rows| Self(Mutex::new(rows)))
            .map_err(|error| fault(&error))
    }

    #[getter]
    fn columns(&self) -> Vec<&'static str> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).columns().collect()
    }

    fn next_rows(&self, py: Python<'_>, most: usize) -> PyResult<Vec<PyRow>> {
        let found = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).next_rows(most));
        found.map(|rows| rows.into_iter().map(row_of).collect()).map_err(|error| fault(&error))
    }
}
