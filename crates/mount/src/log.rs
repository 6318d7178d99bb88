//! Lines about failed requests on stderr, at most a few each second.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Lines within one [`SPAN`]; the rest are counted.
const MAX_LINES: u32 = 10;
const SPAN: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct RateLimitedLog(Mutex<Option<LogWindow>>);

#[derive(Debug)]
struct LogWindow {
    since: Instant,
    lines: u32,
}

impl RateLimitedLog {
    /// Write a line unless there were too many just now.
    pub(crate) fn line(&self, text: &str) {
        let mut window = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = Instant::now();
        let window = window.get_or_insert(LogWindow { since: now, lines: 0 });
        if now.duration_since(window.since) > SPAN {
            if window.lines > MAX_LINES {
                write_line(&format!("{} more failures were not shown", window.lines - MAX_LINES));
            }
            *window = LogWindow { since: now, lines: 0 };
        }
        window.lines += 1;
        if window.lines <= MAX_LINES {
            write_line(text);
        }
    }
}

/// Write a line that comes once.
pub(crate) fn log_line(text: &str) {
    write_line(text);
}

fn write_line(text: &str) {
    use std::io::Write as _;
    // A log that cannot be written cannot be reported.
    let _written = writeln!(std::io::stderr(), "seqferry mount: {text}");
}
