//! Files of S3 Inventory in Parquet.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use seqferry_inventory::{InventoryError, InventoryRow};

#[pyclass(frozen, get_all, name = "InventoryRow", module = "seqferry._native")]
pub struct PyInventoryRow {
    key: String,
    size: Option<u64>,
    etag: Option<String>,
    modified: Option<i64>,
    storage_class: Option<String>,
    is_latest: Option<bool>,
    is_delete_marker: Option<bool>,
}

impl From<InventoryRow> for PyInventoryRow {
    fn from(row: InventoryRow) -> Self {
        let InventoryRow { key, size, etag, last_modified, storage_class, is_latest, is_delete_marker } = row;
        Self { key, size, etag, modified: last_modified, storage_class, is_latest, is_delete_marker }
    }
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

    fn next_rows(&self, py: Python<'_>, most: usize) -> PyResult<Vec<PyInventoryRow>> {
        let found = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).next_rows(most));
        found.map(|rows| rows.into_iter().map(PyInventoryRow::from).collect()).map_err(|error| fault(&error))
    }
}
