//! Traces: one line of JSON for each span and event of our layers, on stderr or at the end of a file.
//!
//! | span | made by | fields |
//! |---|---|---|
//! | `job` | `crates/transfer` | `transfer` |
//! | `object` | `crates/transfer` | `key`, `size`, then `state`, `attempts` and `code` |
//! | `part` | `crates/transfer` | `part`, `size` |
//! | `listing` | this crate | `bucket`, `prefix`, then `found` and `code` |
//! | `request` | this crate | `operation`, `bucket`, `attempt`, `waited_ms`, then `outcome` and `code` |
//! | `cache_read`, `fetch` | `crates/vfs` | `key`, `block` or `blocks`, then `hit` |
//!
//! A line is written when its span ends, and has the fields of all spans around it: a request of a transfer names the
//! transfer, the object and the part. Events (a retry, a hedged request) are lines of their own.
//!
//! Invariants: only spans and events of our own crates are written, whatever other crates offer. Their fields hold no
//! address with a query, no header and no text of a service's reply. Without [`start`] a span costs a comparison.

mod warnings;

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};
pub use warnings::show_warnings;

/// Prefix of the targets of our crates.
const OURS: &str = "seqferry_";

/// Writes spans and events of this process from now on.
///
/// # Errors
/// When the file cannot be opened, or a trace is being written already.
pub fn start(file: Option<&Path>) -> io::Result<()> {
    let sink = match file {
        // Keys and buckets are for the owner's eyes.
        Some(path) => TraceSink::File(OpenOptions::new().append(true).create(true).mode(0o600).open(path)?),
        None => TraceSink::Stderr,
    };
    let started = tracing::subscriber::set_global_default(subscriber(move |line: &str| sink.write(line)));
    started.map_err(|_| io::Error::new(io::ErrorKind::AlreadyExists, "a trace is written already"))
}

/// A subscriber that hands each line to `write`, its end included.
pub fn subscriber(write: impl Fn(&str) + Send + Sync + 'static) -> impl Subscriber + Send + Sync {
    let ours = Targets::new().with_default(LevelFilter::OFF).with_target(OURS, LevelFilter::DEBUG);
    Registry::default().with(TraceLines { write: Arc::new(write) }.with_filter(ours)).with(warnings::layer())
}

enum TraceSink {
    Stderr,
    File(File),
}

impl TraceSink {
    /// Makes one write for a line, so that lines of several processes do not mix. Errors are ignored: a trace is not
    /// worth a failed transfer.
    fn write(&self, line: &str) {
        let _lost = match self {
            Self::Stderr => io::stderr().lock().write_all(line.as_bytes()),
            Self::File(file) => (&*file).write_all(line.as_bytes()),
        };
    }
}

struct TraceLines<W> {
    write: Arc<W>,
}

/// Start and fields of a span, kept until it ends.
struct SpanRecord {
    started: SystemTime,
    since: Instant,
    fields: Fields,
}

/// Names and values as JSON, in the order in which they came.
#[derive(Default)]
struct Fields(Vec<(&'static str, String)>);

impl Fields {
    fn set(&mut self, field: &Field, value: String) {
        match self.0.iter_mut().find(|(name, _)| *name == field.name()) {
            Some((_, old)) => *old = value,
            None => self.0.push((field.name(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.set(field, quote(&format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, quote(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.to_string());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.to_string());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, if value.is_finite() { format!("{value:.3}") } else { "null".to_owned() });
    }
}

impl<S, W> Layer<S> for TraceLines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Fn(&str) + Send + Sync + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(SpanRecord { started: SystemTime::now(), since: Instant::now(), fields });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(kept) = span.extensions_mut().get_mut::<SpanRecord>() {
            values.record(&mut kept.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut line = begin(SystemTime::now(), "event", event.metadata().name());
        for span in context.event_scope(event).into_iter().flat_map(tracing_subscriber::registry::Scope::from_root) {
            if let Some(kept) = span.extensions().get::<SpanRecord>() {
                push(&mut line, &kept.fields);
            }
        }
        push(&mut line, &fields);
        (self.write)(&(line + "}\n"));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let (started, elapsed) = match span.extensions().get::<SpanRecord>() {
            Some(kept) => (kept.started, kept.since.elapsed()),
            None => return,
        };
        let mut line = begin(started, "span", span.name());
        let _infallible = write!(line, ",\"ms\":{:.3}", elapsed.as_secs_f64() * 1e3);
        for span in span.scope().from_root() {
            if let Some(kept) = span.extensions().get::<SpanRecord>() {
                push(&mut line, &kept.fields);
            }
        }
        (self.write)(&(line + "}\n"));
    }
}

fn begin(time: SystemTime, what: &str, name: &str) -> String {
    format!("{{\"time\":\"{}\",\"{what}\":\"{name}\"", rfc3339(time))
}

fn push(line: &mut String, fields: &Fields) {
    for (name, value) in &fields.0 {
        let _infallible = write!(line, ",\"{name}\":{value}");
    }
}

/// A text as JSON has it.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if control.is_control() => {
                let _infallible = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// A time as `2026-11-24T02:10:01.123456Z`.
fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days of the civil calendar, counted from a 1 March (Howard Hinnant, "chrono-Compatible Low-Level Date
    // Algorithms").
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}Z", since.subsec_micros())
}

#[cfg(test)]
mod tests;
