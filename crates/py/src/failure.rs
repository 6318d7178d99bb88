//! Failures that do not raise, as Python sees them: those of requests about one object, and of jobs as a whole.

use pyo3::prelude::*;
use seqferry_store::{Scope, StoreError};

/// A request about one object that failed while others continued, or the reason why a job stopped as a whole.
#[pyclass(frozen, get_all, module = "seqferry._native")]
pub struct Failure {
    pub(crate) error_class: &'static str,
    pub(crate) error_code: String,
    pub(crate) operation: &'static str,
    pub(crate) message: String,
    /// No other object can fare better.
    pub(crate) job_wide: bool,
}

impl From<&StoreError> for Failure {
    fn from(error: &StoreError) -> Self {
        Self {
            error_class: error.class.as_str(),
            error_code: error.code.clone(),
            operation: error.operation,
            message: format!("{error}. {}", error.advice()),
            job_wide: error.scope == Scope::Job,
        }
    }
}

impl From<seqferry_transfer::ObjectFailure> for Failure {
    /// The reason why a job stopped as a whole.
    fn from(failure: seqferry_transfer::ObjectFailure) -> Self {
        Self {
            error_class: failure.class.as_str(),
            error_code: failure.code,
            operation: failure.operation,
            message: failure.message,
            job_wide: true,
        }
    }
}
