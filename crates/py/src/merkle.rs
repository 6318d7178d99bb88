//! Merkle trees over rows of the record, as Python sees them.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString, PyTuple};
use seqferry_rows::merkle::{self, RowTexts};

#[pyclass(module = "seqferry._native")]
pub struct MerkleTree {
    tree: merkle::MerkleTree,
    kept: usize,
}

#[pymethods]
impl MerkleTree {
    #[new]
    #[pyo3(signature = (kept=32))]
    fn new(kept: usize) -> Self {
        Self { tree: merkle::MerkleTree::default(), kept: kept.min(size_of::<merkle::Hash>()) }
    }

    #[pyo3(signature = (rows, *, first=0, times=Vec::new()))]
    fn add<'py>(
        &mut self,
        py: Python<'py>,
        rows: Vec<Bound<'py, PyAny>>,
        first: usize,
        times: Vec<usize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut texts = RowTexts::default();
        for row in &rows {
            texts.begin();
            if let Ok(row) = row.cast::<PyTuple>() {
                for (at, value) in row.iter_borrowed().enumerate().skip(first) {
                    write(&value, times.contains(&at), &mut texts)?;
                }
            } else {
                for (at, value) in row.try_iter()?.enumerate().skip(first) {
                    write(&value?, times.contains(&at), &mut texts)?;
                }
            }
            texts.end();
        }
        let Self { tree, kept } = self;
        let leaves: Vec<u8> =
            py.detach(|| texts.rows().flat_map(|row| tree.add(row).into_iter().take(*kept)).collect());
        Ok(PyBytes::new(py, &leaves))
    }

    #[getter]
    fn size(&self) -> u64 {
        self.tree.size()
    }

    fn root<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.tree.root())
    }
}

/// Write a value; one in floating point only where it is a time in seconds.
fn write(value: &Bound<'_, PyAny>, is_time: bool, texts: &mut RowTexts) -> PyResult<()> {
    if value.is_none() {
        texts.null();
    } else if let Ok(text) = value.cast::<PyString>() {
        if let Ok(text) = text.to_cow() {
            texts.text(text.as_bytes());
        } else {
            // A surrogate stands alone.
            let text = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
            texts.text(text.cast::<PyBytes>()?.as_bytes());
        }
    } else if let (Ok(seconds), true) = (value.cast::<PyFloat>(), is_time) {
        if !texts.seconds(seconds.value()) {
            return Err(PyValueError::new_err("a time of a row is not finite"));
        }
    } else if let (Ok(number), false) = (value.cast::<PyInt>(), value.is_instance_of::<PyBool>()) {
        texts.number(number.extract().map_err(|_| PyValueError::new_err("a number of a row is too large"))?);
    } else {
        return Err(PyTypeError::new_err("a row holds texts, whole numbers, times and empty values"));
    }
    Ok(())
}
