//! Failures of requests about one object, as Python sees them.

use pyo3::prelude::*;
use seqferry_store::{Scope, StoreError};

/// A request about one object that failed, while others went on.
#[pyclass(frozen, get_all, module = "seqferry._native")]
pub struct RequestFailure {
    error_class: &'static str,
    error_code: String,
    operation: &'static str,
    message: String,
    /// No other object can fare better.
    job_wide: bool,
}

impl From<&StoreError> for RequestFailure {
    fn from(error: &StoreError) -> Self {
        Self {
            error_class: error.class.word(),
            error_code: error.code.clone(),
            operation: error.operation,
            message: format!("{error}. {}", error.advice()),
            job_wide: error.scope == Scope::Job,
        }
    }
}
