//! Order of the requests of several transfers where not all can be in flight.

use std::time::Duration;

use crate::common::{TransferFixture, bytes, drain, policy};
use seqferry_client::{Budget, BudgetLimits};
use seqferry_store_testing::fault::{Fault, Rule};
use seqferry_transfer::{JobItem, Policy};

const PARTS: usize = 40;

/// A fixture with four requests in flight, and objects of many slow parts.
async fn fixture(objects: u64) -> (TransferFixture, Vec<JobItem>) {
    let mut fixture = TransferFixture::new();
    fixture.budget = Budget::new(BudgetLimits { max_requests: 4, ..BudgetLimits::default() });
    fixture.store.rule(Rule::always("UploadPartCopy", Fault::Delay(Duration::from_millis(5))));
    let mut items = Vec::new();
    for id in 0..objects {
        items.push(fixture.object(id, &format!("k{id}"), &bytes(id, PARTS * 50)).await);
    }
    (fixture, items)
}

/// Returns for each item the share of all part copies that had begun when its last one did.
fn ends(fixture: &TransferFixture, items: &[JobItem]) -> Vec<f64> {
    let requests = fixture.store.requests();
    let copied: Vec<&str> = requests
        .iter()
        .filter(|request| request.operation == "UploadPartCopy")
        .map(|request| request.key.as_str())
        .collect();
    assert_eq!(copied.len(), items.len() * PARTS);
    let end = |item: &JobItem| copied.iter().rposition(|key| *key == item.target_key).unwrap() + 1;
    items.iter().map(|item| end(item) as f64 / copied.len() as f64).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_a_job_end_one_after_another() {
    let (fixture, items) = fixture(4).await;

    let outcomes = fixture.run(policy(), items.clone()).await;

    assert!(outcomes.values().all(|outcome| outcome.failure.is_none()), "{outcomes:?}");
    let mut ends = ends(&fixture, &items);
    // Any of them may be the one that tries the service out with its first part.
    ends.sort_by(f64::total_cmp);
    assert!(ends[0] < 0.5 && ends[1] < 0.75, "{ends:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_one_transfer_go_one_after_another_and_take_turns_with_another_transfer() {
    let (fixture, items) = fixture(3).await;
    let of = |transfer: &str| Policy { transfer: transfer.to_owned(), ..policy() };

    let jobs = [("one", 0), ("one", 1), ("other", 2)].map(|(name, n)| fixture.start(of(name), vec![items[n].clone()]));
    for (outcomes, _) in futures::future::join_all(jobs.map(drain)).await {
        assert!(outcomes.values().all(|outcome| outcome.failure.is_none()), "{outcomes:?}");
    }

    // Half of what is under way is the other's; of the half that is theirs the first two take one after another.
    let ends = ends(&fixture, &items);
    assert!(ends[0].min(ends[1]) < 0.8 && ends[2] < 0.85, "{ends:?}");
}
