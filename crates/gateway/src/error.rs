//! Reason why a gateway cannot be started.

use std::fmt;

/// Reason why a gateway cannot be started: one sentence with the cause, and one with the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayError(pub String);

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GatewayError {}
