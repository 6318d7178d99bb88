//! A running listing, as Python sees it.

use pyo3::prelude::*;

use crate::values::{ObjectInfo, request_error, seconds};

#[pyclass(frozen, module = "seqferry._native")]
pub struct Listing(pub(crate) seqferry_transfer::Listing);

#[pymethods]
impl Listing {
    fn next(&self, py: Python<'_>, timeout: f64) -> PyResult<Option<Vec<ObjectInfo>>> {
        let page = py.detach(|| self.0.next(seconds(timeout))).map_err(|error| request_error(&error))?;
        Ok(page.map(|objects| objects.into_iter().map(ObjectInfo::from).collect()))
    }

    fn close(&self) {
        self.0.close();
    }
}
