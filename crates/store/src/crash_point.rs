//! Named points at which a process can be made to abort, as by a kill, so that tests cover each of them.
//!
//! A point is before or after a durable effect. Only [`arm`] arms a point; a test requests it from the process that it
//! starts. A point that is not armed costs one check of a static.

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

/// Position of a point relative to its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The effect has not begun.
    Before,
    /// The effect is durable, and nothing else records it.
    After,
}

#[derive(Debug)]
struct Armed {
    when: When,
    effect: String,
    visits_left: AtomicU64,
}

static ARMED: OnceLock<Armed> = OnceLock::new();

/// Makes this process abort at the `visit`-th time (from 1) that it reaches the point `name`: `before-` or `after-`
/// and the name of an effect. Later calls have no effect.
///
/// Returns false when the name has another form. Effects that are not in [`REQUESTS`] are accepted.
pub fn arm(name: &str, visit: u64) -> bool {
    let parsed = [(When::Before, "before-"), (When::After, "after-")]
        .into_iter()
        .find_map(|(when, prefix)| Some((when, name.strip_prefix(prefix)?)));
    let Some((when, effect)) = parsed else { return false };
    let _earlier = ARMED.set(Armed { when, effect: effect.to_owned(), visits_left: AtomicU64::new(visit.max(1)) });
    true
}

/// Marks a point as reached. Does not return at the requested visit of the armed point.
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
