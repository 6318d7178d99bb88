//! Ends of objects as columns of text, which go into a database unread; rows of the record as they are hashed
//! ([`merkle`]).
//!
//! Each text is the inside of a list: `1,null` or `"a","b \"c\""`. PostgreSQL reads it within braces as an array; all
//! other databases read it within brackets as JSON. Control characters are not escaped, unlike in JSON, since
//! PostgreSQL knows no escapes for them. NUL characters are left out: no database takes them, and they carry no
//! meaning.

pub mod merkle;

use std::fmt::Write as _;

use seqferry_client::RecordedUpload;
use seqferry_transfer::{JobEvent, ObjectOutcome, ObjectState};

/// A value of a row.
enum Cell<'a> {
    Number(u64),
    Seconds(f64),
    Text(&'a str),
    Flag(bool),
    Null,
}

impl<'a> Cell<'a> {
    fn text_or_null(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }

    fn write(&self, to: &mut String) {
        let written = match self {
            Self::Number(number) => write!(to, "{number}"),
            Self::Seconds(seconds) => write!(to, "{seconds:?}"),
            Self::Text(text) => {
                write_text(text, to);
                Ok(())
            }
            Self::Flag(flag) => write!(to, "{flag}"),
            Self::Null => to.write_str("null"),
        };
        debug_assert!(written.is_ok(), "a string takes everything");
    }
}

fn write_text(text: &str, to: &mut String) {
    to.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(['"', '\\', '\0']) {
        let (before, from) = rest.split_at(at);
        to.push_str(before);
        if !from.starts_with('\0') {
            to.push('\\');
            to.push_str(&from[..1]);
        }
        rest = &from[1..];
    }
    to.push_str(rest);
    to.push('"');
}

/// Writes the texts as a JSON list that any reader accepts, so that it can be a value among texts.
fn list(texts: &[String]) -> String {
    let mut found = String::from("[");
    for (n, text) in texts.iter().enumerate() {
        found.push_str(if n == 0 { "\"" } else { ", \"" });
        for character in text.chars() {
            match character {
                '"' | '\\' => found.extend(['\\', character]),
                control if control < ' ' => found.extend(format!("\\u{:04x}", u32::from(control)).chars()),
                other => found.push(other),
            }
        }
        found.push('"');
    }
    found.push(']');
    found
}

/// Outcomes of objects, column by column.
#[derive(Debug, Default)]
pub struct Results {
    columns: Vec<(&'static str, String)>,
    rows: usize,
}

impl Results {
    /// Add the outcome of an object.
    pub fn add(&mut self, outcome: &ObjectOutcome) {
        let carried = (!outcome.not_carried.is_empty()).then(|| list(&outcome.not_carried));
        let checksum = outcome.checksum.as_ref();
        let failure = outcome.failure.as_ref();
        let row = [
            ("id", Cell::Number(outcome.id)),
            ("state", Cell::Text(outcome.state.as_str())),
            ("size", Cell::Number(outcome.size)),
            ("etag", Cell::Text(&outcome.source_etag)),
            ("method", Cell::Text(outcome.method.as_str())),
            ("started_at", Cell::Seconds(outcome.started_at)),
            ("ended_at", Cell::Seconds(outcome.ended_at)),
            ("attempts", Cell::Number(outcome.attempts.into())),
            ("retries", Cell::Number(outcome.retries.into())),
            ("target_etag", Cell::text_or_null(outcome.target_etag.as_deref())),
            ("target_version_id", Cell::text_or_null(outcome.target_version_id.as_deref())),
            ("checksum_algorithm", Cell::text_or_null(checksum.map(|sum| sum.algorithm.name()))),
            ("checksum", Cell::text_or_null(checksum.map(|sum| sum.value.as_str()))),
            ("verified", Cell::Text(outcome.verified.as_str())),
            ("not_carried", Cell::text_or_null(carried.as_deref())),
            ("error_class", Cell::text_or_null(failure.map(|failure| failure.class.as_str()))),
            ("error_code", Cell::text_or_null(failure.map(|failure| failure.code.as_str()))),
            ("error_operation", Cell::text_or_null(failure.map(|failure| failure.operation))),
            ("error_message", Cell::text_or_null(failure.map(|failure| failure.message.as_str()))),
            // Of an object that did not arrive the last upload id stays, as a trace of what may be left in the storage.
            ("keeps_upload", Cell::Flag(!matches!(outcome.state, ObjectState::Done | ObjectState::Skipped))),
        ];
        if self.columns.is_empty() {
            self.columns = row.iter().map(|(name, _)| (*name, String::new())).collect();
        }
        for ((_, text), (_, cell)) in self.columns.iter_mut().zip(&row) {
            if self.rows > 0 {
                text.push(',');
            }
            cell.write(text);
        }
        self.rows += 1;
    }

    /// Number of objects.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Names of the columns, and their texts. Without objects there are none.
    pub fn columns(&self) -> &[(&'static str, String)] {
        &self.columns
    }
}

/// Events of a job by what their caller does with them.
#[derive(Debug, Default)]
pub struct EventBatch {
    /// Uploads to be recorded, with the ids of their items.
    pub uploads: Vec<(u64, RecordedUpload)>,
    /// Ids of items that were cancelled: they stay open, and have no result.
    pub cancelled: Vec<u64>,
    /// Outcomes of all other items that have ended.
    pub results: Results,
}

impl FromIterator<JobEvent> for EventBatch {
    fn from_iter<I: IntoIterator<Item = JobEvent>>(events: I) -> Self {
        let mut batch = Self::default();
        for event in events {
            match event {
                JobEvent::RecordUpload { id, upload } => batch.uploads.push((id, upload)),
                JobEvent::Ended(outcome) if outcome.state == ObjectState::Cancelled => batch.cancelled.push(outcome.id),
                JobEvent::Ended(outcome) => batch.results.add(&outcome),
            }
        }
        batch
    }
}
