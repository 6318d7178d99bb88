//! Traces: each line names the transfer, and the object and the part where there is one.

mod common;

use std::sync::{Arc, Mutex};

use common::{TransferFixture, bytes, drain, small_limits};
use seqferry_client::trace;
use seqferry_store_testing::MemoryStore;
use seqferry_store_testing::fault::{Fault, Rule};
use seqferry_transfer::{ObjectState, Policy};
use serde_json::Value;

/// All lines of this process. The names of their transfers distinguish the tests of this file.
fn lines() -> Arc<Mutex<Vec<String>>> {
    static LINES: std::sync::OnceLock<Arc<Mutex<Vec<String>>>> = std::sync::OnceLock::new();
    let started = LINES.get_or_init(|| {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let subscriber = trace::subscriber(move |line: &str| kept.lock().unwrap().push(line.to_owned()));
        tracing::subscriber::set_global_default(subscriber).expect("the only one here");
        lines
    });
    Arc::clone(started)
}

/// Lines of one transfer, as JSON, once its job's own line is there: it is written last.
async fn of_transfer(transfer: &str) -> Vec<Value> {
    let lines = lines();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let parsed: Vec<Value> =
            lines.lock().unwrap().iter().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
        let own: Vec<Value> = parsed.into_iter().filter(|line| line["transfer"] == transfer).collect();
        if own.iter().any(|line| line["span"] == "job") || std::time::Instant::now() > deadline {
            return own;
        }
        tokio::task::yield_now().await;
    }
}

fn policy(transfer: &str) -> Policy {
    Policy { transfer: transfer.to_owned(), ..common::policy() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_its_objects_parts_and_requests_are_lines_that_name_the_transfer() {
    lines();
    let fixture = TransferFixture::of(MemoryStore::new(small_limits().minimum_part));
    let items =
        vec![fixture.object(1, "small\n\"key\"", &bytes(1, 50)).await, fixture.object(2, "big", &bytes(2, 700)).await];

    let outcomes = drain(fixture.start(policy("transfer-of-lines"), items)).await.0;

    assert!(outcomes.values().all(|outcome| outcome.state == ObjectState::Done));
    let lines = of_transfer("transfer-of-lines").await;
    let spans = |name: &str| lines.iter().filter(|line| line["span"] == name).collect::<Vec<_>>();
    assert_eq!((spans("job").len(), spans("object").len()), (1, 2));
    for object in spans("object") {
        assert_eq!((&object["state"], &object["attempts"]), (&"done".into(), &1.into()), "{object}");
        assert!(object["ms"].is_number() && object["time"].is_string(), "{object}");
    }
    let parts = spans("part");
    assert!(parts.len() > 1 && parts.iter().all(|part| part["key"] == "big"), "{parts:?}");
    let of_parts: Vec<_> = spans("request").into_iter().filter(|line| line["operation"] == "UploadPartCopy").collect();
    assert_eq!(of_parts.len(), parts.len());
    assert!(of_parts.iter().all(|line| line["part"].is_u64() && line["outcome"] == "ok"), "{of_parts:?}");
    assert!(spans("request").iter().any(|line| line["key"] == "small\n\"key\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_made_again_has_a_line_for_each_attempt_and_one_for_the_retry() {
    lines();
    let fixture = TransferFixture::new();
    let items = vec![fixture.object(1, "small", &bytes(1, 50)).await];
    fixture.store.rule(Rule::once("CopyObject", Fault::Fail("SlowDown", 503)));

    let outcomes = drain(fixture.start(policy("transfer-with-retry"), items)).await.0;

    assert_eq!(outcomes[&1].state, ObjectState::Done);
    let lines = of_transfer("transfer-with-retry").await;
    let copies: Vec<_> =
        lines.iter().filter(|line| line["span"] == "request" && line["operation"] == "CopyObject").collect();
    let told: Vec<_> = copies.iter().map(|line| (line["attempt"].as_u64(), line["outcome"].as_str())).collect();
    assert_eq!(told, [(Some(1), Some("throttled")), (Some(2), Some("ok"))]);
    assert_eq!(copies[0]["code"], "SlowDown");
    assert_eq!(lines.iter().filter(|line| line["event"] == "retry").count(), 1);
}
