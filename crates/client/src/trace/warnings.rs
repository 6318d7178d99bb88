//! Warnings of our crates as plain lines on stderr, for programs that serve until they are stopped.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

use super::OURS;

/// Lines within one [`SPAN`]; the rest are counted. An outage brings a warning for each call of each client.
const LINES: u32 = 10;
const SPAN: Duration = Duration::from_secs(10);

/// Name of the program before each line. Unset: warnings are not shown.
static PROGRAM: OnceLock<&'static str> = OnceLock::new();

/// Shows warnings of this process on stderr from now on, each with the name of the program before it. A trace that is
/// written has them as well.
pub fn show_warnings(program: &'static str) {
    // Set already: by an earlier start in this process.
    let _unchanged = PROGRAM.set(program);
    // Refused where a trace is written: that subscriber has this layer.
    let _traced = tracing::subscriber::set_global_default(Registry::default().with(layer()));
}

/// The layer of warnings. All that it does not show is switched off for it, so that it costs nothing where no other
/// layer wants it.
pub(super) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    let ours = Targets::new().with_default(LevelFilter::OFF).with_target(OURS, LevelFilter::WARN);
    Warnings::default().with_filter(ours)
}

/// Writes warnings once a program has enabled them.
#[derive(Debug, Default)]
struct Warnings(Mutex<WarningWindow>);

/// Lines since a time.
#[derive(Debug, Default)]
struct WarningWindow {
    since: Option<Instant>,
    lines: u32,
}

impl WarningWindow {
    /// Counts a line: true when it may be written, and the number left out in the span before.
    fn admit(&mut self, now: Instant) -> (bool, u32) {
        let mut left_out = 0;
        if self.since.is_none_or(|since| now.duration_since(since) > SPAN) {
            left_out = self.lines.saturating_sub(LINES);
            *self = Self { since: Some(now), lines: 0 };
        }
        self.lines = self.lines.saturating_add(1);
        (self.lines <= LINES, left_out)
    }
}

#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            let _infallible = write!(self.0, "{value:?}");
        }
    }
}

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let Some(program) = PROGRAM.get() else { return };
        let (is_shown, left_out) = self.0.lock().unwrap_or_else(PoisonError::into_inner).admit(Instant::now());
        let mut lines = String::new();
        if left_out > 0 {
            let _infallible = writeln!(lines, "{program}: {left_out} more warnings were not shown");
        }
        let mut message = Message::default();
        event.record(&mut message);
        if is_shown && !message.0.is_empty() {
            let text = shown(&message.0);
            let _infallible = writeln!(lines, "{program}: {text}");
        }
        // A log that cannot be written cannot be reported.
        let _lost = io::stderr().lock().write_all(lines.as_bytes());
    }
}

/// Characters that Rust escapes in literals, and that print.
const PRINTED: [char; 3] = ['\'', '"', '\\'];

/// A text on one line of a terminal: what does not print is escaped.
fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for piece in text.split_inclusive(PRINTED) {
        let rest = piece.strip_suffix(PRINTED).unwrap_or(piece);
        shown.extend(rest.escape_debug());
        shown.push_str(&piece[rest.len()..]);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_one_line_as_people_read_it() {
        assert_eq!(
            shown("Check the endpoint's name: \"a\\b\", \u{1b}[2J\n\u{202e}é"),
            concat!("Check the endpoint's name: \"a\\b\", \\u{1b}[2J\\n", "\\u{202e}é")
        );
    }

    #[test]
    fn nothing_but_warnings_of_our_crates_is_switched_on() {
        tracing::subscriber::with_default(Registry::default().with(layer()), || {
            assert!(tracing::enabled!(target: "seqferry_nfs::server", tracing::Level::WARN));
            assert!(!tracing::enabled!(target: "seqferry_client::client", tracing::Level::DEBUG));
            assert!(!tracing::enabled!(target: "hyper::client", tracing::Level::WARN));
        });
    }

    #[test]
    fn a_flood_of_warnings_is_counted() {
        let (mut window, start) = (WarningWindow::default(), Instant::now());
        let shown = (0..25).filter(|_| window.admit(start).0).count();
        assert_eq!(shown, LINES as usize);
        assert_eq!(window.admit(start + SPAN + Duration::from_millis(1)), (true, 15));
        assert_eq!(window.admit(start + SPAN + Duration::from_millis(2)), (true, 0));
    }
}
