//! Ends of objects as columns of text.

use proptest::prelude::*;
use seqferry_client::RecordedUpload;
use seqferry_rows::{EventBatch, Results};
use seqferry_store::{Checksum, ChecksumAlgorithm, ErrorClass};
use seqferry_transfer::{
    CopyMethod, FailureClass, JobEvent, ObjectFailure, ObjectOutcome, ObjectState, VerificationLevel,
};
use serde_json::{Value, json};

fn outcome(id: u64, state: ObjectState) -> ObjectOutcome {
    ObjectOutcome {
        id,
        size: 7,
        source_etag: "etag".to_owned(),
        state,
        method: CopyMethod::Stream,
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
    let upload = RecordedUpload { upload_id: "upload".to_owned(), part_size: 5, etag: None };
    let begun = JobEvent::RecordUpload { id: 1, upload: upload.clone() };

    let batch: EventBatch =
        [begun, ended(1, ObjectState::Done), ended(2, ObjectState::Cancelled), ended(3, ObjectState::Failed)]
            .into_iter()
            .collect();

    assert_eq!(batch.uploads, [(1, upload)]);
    assert_eq!((batch.cancelled, batch.results.rows()), (vec![2], 2));
}

#[test]
fn each_column_has_a_value_of_each_object() {
    let mut results = Results::default();
    assert!(results.columns().is_empty());
    let checksum = Checksum::from_header(ChecksumAlgorithm::Crc64Nvme, "AAAA", None);
    results.add(&ObjectOutcome {
        checksum: Some(checksum),
        target_version_id: Some("v".to_owned()),
        ..outcome(1, ObjectState::Done)
    });
    let class = FailureClass::Store(ErrorClass::Retry);
    let failure = ObjectFailure::new(class, "SlowDown", "PutObject", "it is slow".to_owned());
    results.add(&ObjectOutcome { failure: Some(failure), ..outcome(2, ObjectState::Failed) });

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
    for state in [ObjectState::Done, ObjectState::Skipped, ObjectState::Failed, ObjectState::Cancelled] {
        results.add(&outcome(1, state));
    }
    assert_eq!(column(&results, "keeps_upload"), [json!(false), json!(false), json!(true), json!(true)]);
}

#[test]
fn control_characters_stand_for_themselves_and_a_nul_is_left_out() {
    let mut results = Results::default();
    results.add(&ObjectOutcome { source_etag: "a\u{1}\n\0b".to_owned(), ..outcome(1, ObjectState::Done) });
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
            results.add(&ObjectOutcome { source_etag: text.clone(), not_carried: list.clone(), ..outcome(1, ObjectState::Done) });
        }

        let found = column(&results, "etag");
        prop_assert_eq!(found, texts.iter().map(|text| json!(text)).collect::<Vec<_>>());
        for (found, list) in column(&results, "not_carried").iter().zip(&lists) {
            let read = found.as_str().map(|text| serde_json::from_str::<Vec<String>>(text).unwrap());
            prop_assert_eq!(read, (!list.is_empty()).then(|| list.clone()));
        }
    }
}
