//! Fault rules: which requests, how often, how.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::classify::{OPERATIONS, RequestInfo};

/// A fault and the requests that it strikes. A request must match all given fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// Fault that the rule causes.
    pub fault: Fault,
    /// Operation that the rule is restricted to. The sources of copies are read by `GetObject`.
    #[serde(default)]
    pub operation: Option<String>,
    /// Bucket that the rule is restricted to.
    #[serde(default)]
    pub bucket: Option<String>,
    /// Prefix of the keys that the rule is restricted to.
    #[serde(default)]
    pub key_prefix: Option<String>,
    /// Access key id of the signed requests that the rule is restricted to.
    #[serde(default)]
    pub access_key: Option<String>,
    /// Probability of the fault for each matching request.
    #[serde(default = "always")]
    pub probability: f64,
    /// Number of faults after which the rule is spent.
    #[serde(default)]
    pub times: Option<u64>,
}

fn always() -> f64 {
    1.0
}

/// Fault that strikes a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// 500; nothing is done.
    InternalError,
    /// 503; nothing is done. Beside the refusals of the model.
    SlowDown,
    /// The connection is reset before anything is done.
    Reset,
    /// 200 with an `InternalError` for a body, of operations that can answer so; nothing is done. Others: 500.
    #[serde(rename = "error_in_200")]
    ErrorIn200,
    /// The request is carried out, and the connection closed without an answer.
    LostReply,
    /// The request is carried out, and answered this many seconds of the model later; a GET stalls half-way through the
    /// body.
    Stall(f64),
    /// The body of GET ends half-way, by a broken connection.
    Truncate,
    /// One bit of the body of GET is wrong.
    Corrupt,
    /// The reply states an `ETag` that is not the object's.
    WrongEtag,
    /// 403.
    AccessDenied,
    /// 403 for want of a permission on the KMS key.
    KmsDenied,
    /// 400, the KMS key is disabled.
    KmsDisabled,
    /// 403, the object is archived.
    Archived,
    /// 400, the credentials have expired.
    ExpiredToken,
    /// 403, the clocks differ.
    RequestTimeTooSkewed,
    /// Any other error: status and code.
    Error(u16, String),
}

impl Fault {
    /// Returns true when the fault also strikes the reading of a copy's source.
    fn is_of_access(&self) -> bool {
        matches!(self, Self::AccessDenied | Self::KmsDenied | Self::KmsDisabled | Self::Archived)
    }
}

impl FaultRule {
    /// Checks the rule: its operation exists, and its values are in range.
    ///
    /// # Errors
    /// The text names the error in the rule.
    pub fn check(&self) -> Result<(), String> {
        if let Some(operation) = &self.operation
            && !OPERATIONS.contains(&operation.as_str())
        {
            return Err(format!("fault: there is no operation {operation:?}"));
        }
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(format!("fault: probability must be between 0 and 1, not {}", self.probability));
        }
        match &self.fault {
            Fault::Stall(seconds) if !(0.0..=1e6).contains(seconds) => {
                Err(format!("fault: stall must be between 0 and 1e6 seconds, not {seconds}"))
            }
            Fault::Error(status, _) if !(400..600).contains(status) => {
                Err(format!("fault: error status must be between 400 and 599, not {status}"))
            }
            _ => Ok(()),
        }
    }

    fn matches(&self, operation: &str, bucket: &str, key: &str, access_key: Option<&str>) -> bool {
        self.operation.as_deref().is_none_or(|known| known == operation)
            && self.bucket.as_deref().is_none_or(|known| known == bucket)
            && self.key_prefix.as_deref().is_none_or(|prefix| key.starts_with(prefix))
            && self.access_key.as_deref().is_none_or(|known| access_key == Some(known))
            && self.times != Some(0)
    }
}

/// The rules in force.
#[derive(Debug)]
pub(super) struct Faults {
    pub(super) rules: Vec<FaultRule>,
    random: Rng,
    fired: u64,
}

impl Faults {
    pub(super) fn new(rules: Vec<FaultRule>, seed: u64) -> Self {
        Self { rules, random: Rng::with_seed(seed), fired: 0 }
    }

    pub(super) fn fired(&self) -> u64 {
        self.fired
    }

    /// The first rule that meets a request, by chance where it is one of chance.
    pub(super) fn strike(&mut self, call: &RequestInfo) -> Option<Fault> {
        if self.rules.is_empty() {
            return None;
        }
        let (bucket, key) = (call.bucket.as_deref().unwrap_or(""), call.key.as_deref().unwrap_or(""));
        let access_key = call.access_key.as_deref();
        self.first(|rule| rule.matches(call.operation, bucket, key, access_key))
    }

    /// The first rule that forbids a copy to read its source.
    pub(super) fn strike_source(&mut self, bucket: &str, key: &str, access_key: Option<&str>) -> Option<Fault> {
        self.first(|rule| rule.fault.is_of_access() && rule.matches("GetObject", bucket, key, access_key))
    }

    fn first(&mut self, matches: impl Fn(&FaultRule) -> bool) -> Option<Fault> {
        for rule in &mut self.rules {
            if matches(rule) && (rule.probability >= 1.0 || self.random.f64() < rule.probability) {
                if let Some(times) = &mut rule.times {
                    *times -= 1;
                }
                self.fired += 1;
                return Some(rule.fault.clone());
            }
        }
        None
    }
}
