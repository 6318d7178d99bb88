//! Handover of the cache of an unmounted folder whose process still uploads: a new mount of the same source asks that
//! process to exit.
//!
//! The process may exit at any time, since the journal holds everything. A gateway that serves a share refuses.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::socket::NAME;
use crate::claimed_cache::ClaimedCache;
use crate::error::GatewayError;

/// Longest wait for the answer.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the end of a process that has agreed: it gives its uploads up.
const EXIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between checks whether it has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Bytes of an answer.
const MAX_REPLY_BYTES: u64 = 8 << 10;

/// Have the process leave that uses this cache for a mount of the same source that was unmounted. Blocks. Nothing is
/// done where no process uses it, or none answers.
///
/// # Errors
/// When the process serves, has another source, or does not end in time.
pub(crate) fn take_from_unmounted(cache: &Path, source: &str) -> Result<(), GatewayError> {
    if ClaimedCache::is_free(cache) {
        return Ok(());
    }
    // One that ends just now gives no answer.
    let answer = ask(cache, source).unwrap_or_default();
    if let Some(text) = answer.get("error").and_then(Value::as_str) {
        return Err(GatewayError(format!("another gateway uses the cache {}: {text}", cache.display())));
    }
    let end = Instant::now() + EXIT_TIMEOUT;
    while !ClaimedCache::is_free(cache) {
        if Instant::now() >= end {
            return Err(GatewayError(format!(
                "the process of the mount before still uses the cache {}: try again later, or end that process",
                cache.display()
            )));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

fn ask(cache: &Path, source: &str) -> io::Result<Value> {
    // Paths of sockets have 107 bytes at most: that of the folder is the short one of its descriptor.
    let folder = File::open(cache)?;
    let mut stream = UnixStream::connect(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()))?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
    let request = json!({"command": "hand_over", "source": source});
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut line = String::new();
    stream.take(MAX_REPLY_BYTES).read_to_string(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}
