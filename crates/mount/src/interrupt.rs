//! Interrupted requests: finds out that the program behind a slow request has a pending stopping signal.
//!
//! The kernel sends `FUSE_INTERRUPT`, which the FUSE library does not pass on. `/proc/TID/status` has the same facts:
//! the signals that are pending for the waiting thread. A program that handles the signal gets EINTR; another one ends.

use std::time::Duration;

/// Interval between checks for a stopping signal while a request waits; the first check comes after one interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM as a mask: signals that ask a program to stop. Timers and the like do not
/// interrupt, as on a disk.
const STOP_SIGNALS: u64 = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 8 | 1 << 14;

/// Ends when a stopping signal is pending for the thread. Never ends for the id 0, or a thread that cannot be seen.
pub(crate) async fn wait_for_interrupt(thread: u32) {
    if thread == 0 {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        match std::fs::read_to_string(format!("/proc/{thread}/status")) {
            Ok(status) if !is_stopping(&status) => {}
            Ok(_) => return,
            // The thread is in another PID namespace, or has gone.
            Err(_) => return std::future::pending().await,
        }
    }
}

/// True when a stopping signal is pending for the thread and neither blocked nor ignored.
fn is_stopping(status: &str) -> bool {
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    let [thread, process, blocked, ignored] =
        ["SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:"].map(|name| mask(name).unwrap_or(0));
    (thread | process) & !blocked & !ignored & STOP_SIGNALS != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pending: u64, shared: u64, blocked: u64, ignored: u64) -> String {
        format!(
            "Name:\tx\nSigPnd:\t{pending:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\n"
        )
    }

    #[test]
    fn only_signals_that_stop_a_program_interrupt() {
        let interrupt = 1 << 1;
        assert!(is_stopping(&status(0, interrupt, 0, 0)));
        assert!(is_stopping(&status(1 << 8, 0, 0, 0)), "SIGKILL");
        assert!(!is_stopping(&status(0, interrupt, interrupt, 0)));
        assert!(!is_stopping(&status(0, interrupt, 0, interrupt)));
        assert!(!is_stopping(&status(0, 1 << 13, 0, 0)), "SIGALRM");
        assert!(!is_stopping(&status(0, 0, 0, 0)) && !is_stopping(""));
    }
}
