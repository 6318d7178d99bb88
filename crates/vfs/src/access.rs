//! Proofs that this identity may read a version: cached bytes are shown only with one.
//!
//! The folder of a disk cache can hold what another identity has read. The proof is an answer of the service about the
//! version: to a GET of other bytes of it, or of its first byte, which the service refuses as it refuses all of it
//! (also where a key of KMS is denied). It holds for the lifetime of listings, as what listings say does.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::version::VersionDigest;

/// Proofs that are remembered, some 60 bytes each. Beyond, all are forgotten, and found again as they are needed.
const MOST: usize = 1_000_000;

/// Versions that the service has just let this identity read.
#[derive(Debug)]
pub(crate) struct AccessCache {
    /// None: proofs hold as long as this value.
    lifetime: Option<Duration>,
    proven: Mutex<HashMap<VersionDigest, Instant>>,
}

impl AccessCache {
    pub(crate) fn new(lifetime: Option<Duration>) -> Self {
        Self { lifetime, proven: Mutex::default() }
    }

    /// True when an answer about this version is younger than the lifetime.
    pub(crate) fn holds(&self, version: VersionDigest) -> bool {
        let proven = self.proven.lock().unwrap_or_else(PoisonError::into_inner);
        proven.get(&version).is_some_and(|at| self.lifetime.is_none_or(|lifetime| at.elapsed() < lifetime))
    }

    /// Take note of an answer about this version.
    pub(crate) fn add(&self, version: VersionDigest) {
        let mut proven = self.proven.lock().unwrap_or_else(PoisonError::into_inner);
        if proven.len() >= MOST {
            proven.clear();
        }
        proven.insert(version, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_version_and_its_lifetime() {
        let (one, other) = (VersionDigest([1; 32]), VersionDigest([2; 32]));
        for (lifetime, holds) in [(None, true), (Some(Duration::from_hours(1)), true), (Some(Duration::ZERO), false)] {
            let proofs = AccessCache::new(lifetime);
            assert!(!proofs.holds(one));
            proofs.add(one);
            assert_eq!((proofs.holds(one), proofs.holds(other)), (holds, false), "{lifetime:?}");
        }
    }
}
