//! Content of trace lines, and secrets that they never hold.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::{debug, debug_span, info_span};

use super::*;

/// The lines that `work` leads to.
fn lines(work: impl FnOnce()) -> Vec<String> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let subscriber = subscriber(move |line: &str| kept.lock().unwrap().push(line.to_owned()));
    tracing::subscriber::with_default(subscriber, work);
    lines.lock().unwrap().clone()
}

/// A line without its time and its duration.
fn without_times(line: &str) -> String {
    let rest = line.split_once(',').expect("a time").1;
    match rest.split_once("\"ms\":") {
        Some((before, after)) => format!("{before}{}", after.split_once(',').map_or("", |(_, fields)| fields)),
        None => rest.to_owned(),
    }
}

#[test]
fn a_line_has_the_fields_of_the_spans_around_it_and_the_last_value_of_each() {
    let written = lines(|| {
        let _job = debug_span!(target: "seqferry_test", "job", transfer = "t-1").entered();
        let request = debug_span!(target: "seqferry_test", "request", attempt = 1, outcome = "abandoned");
        request.in_scope(|| debug!(name: "retry", target: "seqferry_test", pause_ms = 1.5));
        request.record("outcome", "ok");
    });

    let written: Vec<_> = written.iter().map(|line| without_times(line)).collect();
    assert_eq!(
        written,
        [
            "\"event\":\"retry\",\"transfer\":\"t-1\",\"attempt\":1,\"outcome\":\"abandoned\",\"pause_ms\":1.500}\n",
            "\"span\":\"request\",\"transfer\":\"t-1\",\"attempt\":1,\"outcome\":\"ok\"}\n",
            "\"span\":\"job\",\"transfer\":\"t-1\"}\n",
        ]
    );
}

#[test]
fn spans_and_events_of_other_crates_are_left_out() {
    let written = lines(|| {
        let _sdk = info_span!(target: "aws_sigv4", "sign", secret = "hunter2").entered();
        debug!(target: "hyper", "GET /key?X-Amz-Signature=abc");
        debug_span!(target: "seqferry_test", "request").in_scope(|| {});
    });

    assert_eq!(written.len(), 1);
    assert!(!written[0].contains("hunter2"), "{written:?}");
}

#[test]
fn keys_with_any_characters_stay_on_one_line() {
    let written = lines(|| debug_span!(target: "seqferry_test", "object", key = "a\"b\\c\nd\u{7f}é").in_scope(|| {}));

    assert!(written[0].ends_with("\"key\":\"a\\\"b\\\\c\\u000ad\\u007fé\"}\n"), "{written:?}");
    assert_eq!(written[0].matches('\n').count(), 1);
}

#[test]
fn times_are_those_of_the_calendar() {
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00.000000Z"),
        (951_782_399, "2000-02-28T23:59:59.000000Z"),
        (951_782_400, "2000-02-29T00:00:00.000000Z"),
        (1_795_485_600, "2026-11-24T02:00:00.000000Z"),
        (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
    ] {
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), text);
    }
}
