//! Failures as rows for Python.

use seqferry_store::StoreError;

/// Class, code, operation and message of a failure, and whether no other object can fare better.
pub(crate) type FailureRow = (&'static str, String, &'static str, String, bool);

pub(crate) fn failure_row(error: &StoreError) -> FailureRow {
    let message = format!("{error}. {}", error.advice());
    (error.class.word(), error.code.clone(), error.operation, message, error.scope == seqferry_store::Scope::Job)
}
