//! Named points at which a process can be ordered to end without a word, as by a kill, so that tests visit each of
//! them.
//!
//! A point stands before or after a durable effect. Nothing is armed but by [`arm`], which a test asks for through the
//! process that it starts; a point that is not armed costs one check of a static.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests that change a storage, by S3's name. Each has a point [`When::Before`] and [`When::After`] it.
pub const REQUESTS: [&str; 9] = [
    "AbortMultipartUpload",
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateMultipartUpload",
    "DeleteObject",
    "DeleteObjects",
    "PutObject",
    "UploadPart",
    "UploadPartCopy",
];

/// Side of an effect on which a point stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Nothing of it has happened.
    Before,
    /// The effect is there, and nothing else knows of it.
    After,
}

#[derive(Debug)]
struct Armed {
    when: When,
    effect: String,
    visits_left: AtomicU64,
}

static ARMED: OnceLock<Armed> = OnceLock::new();

/// Has this process end at the `visit`-th time (from 1) that it comes to the point `name`: `before-` or `after-` and
/// the name of an effect. The first call counts.
///
/// Returns false when no point has this name; effects that are not [`REQUESTS`] are taken as they are named.
pub fn arm(name: &str, visit: u64) -> bool {
    let parted = [(When::Before, "before-"), (When::After, "after-")]
        .into_iter()
        .find_map(|(when, prefix)| Some((when, name.strip_prefix(prefix)?)));
    let Some((when, effect)) = parted else { return false };
    let _earlier = ARMED.set(Armed { when, effect: effect.to_owned(), visits_left: AtomicU64::new(visit.max(1)) });
    true
}

/// Comes to a point. Does not return when it is the armed one, and this the visit that was requested.
pub fn reach(when: When, effect: &str) {
    let Some(armed) = ARMED.get() else { return };
    if armed.when == when && armed.effect == effect && armed.visits_left.fetch_sub(1, Ordering::Relaxed) == 1 {
        // As by a kill: no destructor runs, and nothing that is buffered is written.
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_points_before_and_after_an_effect_can_be_armed() {
        assert!(!arm("PutObject", 1));
        assert!(!arm("during-PutObject", 1));
        reach(When::Before, "PutObject");
    }
}
