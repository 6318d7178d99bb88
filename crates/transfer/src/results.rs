//! Ends of objects as columns of text, which go into a database unread.
//!
//! Each text is the inside of a list: `1,null` or `"a","b \"c\""`. PostgreSQL reads it within braces as an array; all
//! other databases read it within brackets as JSON. Control characters are not escaped, unlike in JSON, since
//! PostgreSQL knows no escapes for them. NUL characters are left out: no database takes them, and they carry no
//! meaning.

use std::fmt::Write as _;

use crate::job::JobEvent;
use crate::outcome::{Outcome, State};

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
    pub fn add(&mut self, outcome: &Outcome) {
        let carried = (!outcome.not_carried.is_empty()).then(|| list(&outcome.not_carried));
        let checksum = outcome.checksum.as_ref();
        let failure = outcome.failure.as_ref();
        let row = [
            ("id", Cell::Number(outcome.id)),
            ("state", Cell::Text(outcome.state.word())),
            ("size", Cell::Number(outcome.size)),
            ("etag", Cell::Text(&outcome.source_etag)),
            ("method", Cell::Text(outcome.method.word())),
            ("started_at", Cell::Seconds(outcome.started_at)),
            ("ended_at", Cell::Seconds(outcome.ended_at)),
            ("attempts", Cell::Number(outcome.attempts.into())),
            ("retries", Cell::Number(outcome.retries.into())),
            ("target_etag", Cell::text_or_null(outcome.target_etag.as_deref())),
            ("target_version_id", Cell::text_or_null(outcome.target_version_id.as_deref())),
            ("checksum_algorithm", Cell::text_or_null(checksum.map(|sum| sum.algorithm.name()))),
            ("checksum", Cell::text_or_null(checksum.map(|sum| sum.value.as_str()))),
            ("verified", Cell::Text(outcome.verified.word())),
            ("not_carried", Cell::text_or_null(carried.as_deref())),
            ("error_class", Cell::text_or_null(failure.map(|failure| failure.class.word()))),
            ("error_code", Cell::text_or_null(failure.map(|failure| failure.code.as_str()))),
            ("error_operation", Cell::text_or_null(failure.map(|failure| failure.operation))),
            ("error_message", Cell::text_or_null(failure.map(|failure| failure.message.as_str()))),
            // Of an object that did not arrive the last upload id stays, as a trace of what may be left in the storage.
            ("keeps_upload", Cell::Flag(!matches!(outcome.state, State::Done | State::Skipped))),
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

/// Upload that a job has created, to be recorded before its first part is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedUpload {
    /// Item id.
    pub id: u64,
    /// The service's id of the upload.
    pub upload_id: String,
    /// Bytes of each part but the last.
    pub part_size: u64,
}

/// Events of a job by what their caller does with them.
#[derive(Debug, Default)]
pub struct EventBatch {
    /// Uploads to be recorded.
    pub begun: Vec<StartedUpload>,
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
                JobEvent::MultipartBegun { id, upload_id, part_size } => {
                    batch.begun.push(StartedUpload { id, upload_id, part_size });
                }
                JobEvent::Ended(outcome) if outcome.state == State::Cancelled => batch.cancelled.push(outcome.id),
                JobEvent::Ended(outcome) => batch.results.add(&outcome),
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seqferry_store::{Checksum, ChecksumAlgorithm, ErrorClass};
    use serde_json::{Value, json};

    use super::*;
    use crate::outcome::{FailureClass, Method, ObjectFailure, VerificationLevel};

    fn outcome(id: u64, state: State) -> Outcome {
        Outcome {
            id,
            size: 7,
            source_etag: "etag".to_owned(),
            state,
            method: Method::Stream,
            started_at: 1.0,
            ended_at: 1_760_000_000.25,
            attempts: 1,
            retries: 2,
            target_etag: None,
            target_version_id: None,
            checksum: None,
            verified: VerificationLevel::Size,
            not_carried: Vec::new(),
            failure: None,
        }
    }

    fn read(results: &Results) -> Vec<(&'static str, Vec<Value>)> {
        let of_one = |text: &str| serde_json::from_str(&format!("[{text}]")).unwrap();
        results.columns().iter().map(|(name, text)| (*name, of_one(text))).collect()
    }

    fn column(results: &Results, wanted: &str) -> Vec<Value> {
        read(results).into_iter().find(|(name, _)| *name == wanted).unwrap().1
    }

    #[test]
    fn cancelled_items_have_no_result() {
        let ended = |id, state| JobEvent::Ended(Box::new(outcome(id, state)));
        let begun = JobEvent::MultipartBegun { id: 1, upload_id: "upload".to_owned(), part_size: 5 };

        let batch: EventBatch =
            [begun, ended(1, State::Done), ended(2, State::Cancelled), ended(3, State::Failed)].into_iter().collect();

        assert_eq!(batch.begun, [StartedUpload { id: 1, upload_id: "upload".to_owned(), part_size: 5 }]);
        assert_eq!((batch.cancelled, batch.results.rows()), (vec![2], 2));
    }

    #[test]
    fn each_column_has_a_value_of_each_object() {
        let mut results = Results::default();
        assert!(results.columns().is_empty());
        let checksum = Checksum::read(ChecksumAlgorithm::Crc64Nvme, "AAAA", None);
        results.add(&Outcome {
            checksum: Some(checksum),
            target_version_id: Some("v".to_owned()),
            ..outcome(1, State::Done)
        });
        let class = FailureClass::Store(ErrorClass::Retry);
        let failure = ObjectFailure::new(class, "SlowDown", "PutObject", "it is slow".to_owned());
        results.add(&Outcome { failure: Some(failure), ..outcome(2, State::Failed) });

        assert_eq!(results.rows(), 2);
        let read: serde_json::Map<_, _> =
            read(&results).into_iter().map(|(name, values)| (name.to_owned(), values.into())).collect();
        assert_eq!(
            Value::Object(read),
            json!({
                "id": [1, 2],
                "state": ["done", "failed"],
                "size": [7, 7],
                "etag": ["etag", "etag"],
                "method": ["stream", "stream"],
                "started_at": [1.0, 1.0],
                "ended_at": [1_760_000_000.25, 1_760_000_000.25],
                "attempts": [1, 1],
                "retries": [2, 2],
                "target_etag": [null, null],
                "target_version_id": ["v", null],
                "checksum_algorithm": ["CRC64NVME", null],
                "checksum": ["AAAA", null],
                "verified": ["size", "size"],
                "not_carried": [null, null],
                "error_class": [null, "retry"],
                "error_code": [null, "SlowDown"],
                "error_operation": [null, "PutObject"],
                "error_message": [null, "it is slow"],
                "keeps_upload": [false, true],
            })
        );
    }

    #[test]
    fn an_upload_is_forgotten_once_its_object_is_there() {
        let mut results = Results::default();
        for state in [State::Done, State::Skipped, State::Failed, State::Cancelled] {
            results.add(&outcome(1, state));
        }
        assert_eq!(column(&results, "keeps_upload"), [json!(false), json!(false), json!(true), json!(true)]);
    }

    #[test]
    fn control_characters_stand_for_themselves_and_a_nul_is_left_out() {
        let mut results = Results::default();
        results.add(&Outcome { source_etag: "a\u{1}\n\0b".to_owned(), ..outcome(1, State::Done) });
        assert!(results.columns().contains(&("etag", "\"a\u{1}\nb\"".to_owned())));
    }

    proptest! {
        #[test]
        fn whatever_is_said_can_be_read_again(
            texts in proptest::collection::vec("[^\0-\u{1f}]{0,20}", 1..5),
            lists in proptest::collection::vec(proptest::collection::vec(any::<String>(), 0..3), 5),
        ) {
            let mut results = Results::default();
            for (text, list) in texts.iter().zip(&lists) {
                results.add(&Outcome { source_etag: text.clone(), not_carried: list.clone(), ..outcome(1, State::Done) });
            }

            let found = column(&results, "etag");
            prop_assert_eq!(found, texts.iter().map(|text| json!(text)).collect::<Vec<_>>());
            for (found, list) in column(&results, "not_carried").iter().zip(&lists) {
                let read = found.as_str().map(|text| serde_json::from_str::<Vec<String>>(text).unwrap());
                prop_assert_eq!(read, (!list.is_empty()).then(|| list.clone()));
            }
        }
    }
}
