//! Claims of several caches on one bucket in memory.

use std::sync::Arc;

use bytes::Bytes;
use seqferry_client::{Budget, BudgetLimits, Endpoint, RequestMetrics, RetryPolicy};
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, ListRequest, ObjectRef};
use seqferry_store_testing::fault::{Fault, FaultStore, Rule};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};

use super::*;

struct Bucket {
    store: Arc<MemoryStore>,
    asked: Arc<FaultStore>,
}

impl Bucket {
    fn new() -> Self {
        let store = MemoryStore::with_buckets(&["b"]);
        let asked = Arc::new(FaultStore::new(Arc::clone(&store) as Arc<dyn ObjectStore>));
        Self { store, asked }
    }

    fn client(&self) -> RetryingClient {
        let (budget, metrics) = (Budget::new(BudgetLimits::default()), Arc::new(RequestMetrics::default()));
        let store = Arc::clone(&self.asked) as Arc<dyn ObjectStore>;
        let policy = RetryPolicy::impatient();
        RetryingClient::new(Endpoint::new(store), budget, policy, CancellationToken::new(), metrics)
    }

    fn spec(&self, cache: &str, prefix: &str) -> ClaimSpec {
        ClaimSpec {
            client: self.client(),
            bucket: "b".to_owned(),
            prefix: prefix.to_owned(),
            write: WriteOptions::default(),
            cache: cache.to_owned(),
            share: format!("share-{cache}"),
            take_over: false,
        }
    }

    fn claim(&self, cache: &str, prefix: &str) -> PrefixClaim {
        PrefixClaim::new(self.spec(cache, prefix))
    }

    fn taking(&self, cache: &str, prefix: &str) -> PrefixClaim {
        PrefixClaim::new(ClaimSpec { take_over: true, ..self.spec(cache, prefix) })
    }

    async fn keys(&self) -> Vec<String> {
        let request = ListRequest { bucket: "b".to_owned(), ..ListRequest::default() };
        self.store.list(&request).await.unwrap().objects.into_iter().map(|object| object.key).collect()
    }

    async fn put(&self, key: &str, text: &str) {
        self.store.put("b", key, Bytes::from(text.to_owned()), &Attributes::default()).await.unwrap();
    }

    fn writes(&self) -> usize {
        self.asked.count("PutObject")
    }
}

/// More time than a look holds.
async fn later() {
    tokio::time::advance(CHECK_VALIDITY + RETRY_PAUSE).await;
}

#[tokio::test(start_paused = true)]
async fn one_cache_claims_a_prefix_and_another_one_is_told_of_it() {
    let bucket = Bucket::new();
    let (first, second) = (bucket.claim("1", "runs/a/"), bucket.claim("2", "runs/a/"));
    first.check().await.unwrap();
    first.acquire().await.unwrap();

    let taken = second.check().await.unwrap_err();

    let ClaimError::Taken(told) = taken.clone() else { panic!("{taken:?}") };
    assert!(told.contains("writes to s3://b/runs/a/ (share share-1, since 20"), "{told}");
    assert!(told.contains("s3://b/runs/a/.seqferry-share"), "{told}");
    assert_eq!(second.acquire().await.unwrap_err(), taken);
    assert_eq!(second.confirm().await.unwrap_err(), told);
    assert_eq!((bucket.keys().await, bucket.writes()), (vec!["runs/a/.seqferry-share".to_owned()], 1));
    second.release().await;
    second.withdraw().await;
    first.confirm().await.unwrap();
    first.release().await;
    assert!(bucket.keys().await.is_empty());
    second.acquire().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cache_finds_its_claim_again_without_a_write_and_after_a_move_with_one() {
    let bucket = Bucket::new();
    let first = bucket.claim("1", "");
    first.acquire().await.unwrap();
    let again = bucket.claim("1", "");
    again.acquire().await.unwrap();
    assert_eq!(bucket.writes(), 1);
    again.withdraw().await;
    assert_eq!(bucket.keys().await, [CLAIM]);
    let moved = PrefixClaim { host: "elsewhere".to_owned(), ..bucket.claim("1", "") };

    moved.acquire().await.unwrap();

    assert_eq!(bucket.writes(), 2);
    later().await;
    // The cache was copied, and both copies are in use.
    assert!(first.confirm().await.unwrap_err().contains("the gateway on elsewhere writes to s3://b/"));
    first.release().await;
    assert_eq!(bucket.keys().await, [CLAIM]);
}

#[tokio::test(start_paused = true)]
async fn the_one_that_is_replaced_notices_and_goes_on_when_the_other_one_has_ended() {
    let bucket = Bucket::new();
    let (first, second) = (bucket.claim("1", "p/"), bucket.taking("2", "p/"));
    first.acquire().await.unwrap();
    second.check().await.unwrap();
    second.acquire().await.unwrap();

    first.confirm().await.unwrap();
    later().await;
    let told = first.confirm().await.unwrap_err();

    assert!(told.contains("share share-2"), "{told}");
    assert_eq!(first.refusal(), Some(told));
    first.release().await;
    assert_eq!(bucket.keys().await, ["p/.seqferry-share"]);
    // It is taken over once: the next one that does it wins.
    let third = bucket.taking("3", "p/");
    third.acquire().await.unwrap();
    later().await;
    assert!(second.confirm().await.unwrap_err().contains("share share-3"));
    third.release().await;
    later().await;
    first.confirm().await.unwrap();
    assert_eq!(first.refusal(), None);
}

#[tokio::test(start_paused = true)]
async fn claims_above_hold_for_a_prefix_and_those_below_and_beside_do_not() {
    let bucket = Bucket::new();
    let below = bucket.claim("1", "runs/a/");
    below.acquire().await.unwrap();
    bucket.claim("2", "runs/ab/").acquire().await.unwrap();
    let above = bucket.claim("3", "runs/");
    above.acquire().await.unwrap();

    later().await;

    assert!(below.confirm().await.unwrap_err().contains("s3://b/runs/.seqferry-share"));
    assert!(bucket.claim("4", "runs/c/").acquire().await.is_err());
    bucket.claim("3", "runs/c/").acquire().await.unwrap();
    // An identity that sees nothing above its prefix.
    bucket.asked.rule(Rule::always("GetObject", Fault::Fail("AccessDenied", 403)).key("runs/.seqferry-share"));
    bucket.claim("4", "runs/d/").acquire().await.unwrap();
    let refused = bucket.claim("4", "runs/").check().await.unwrap_err();
    assert!(matches!(&refused, ClaimError::Failed(text) if text.contains("AccessDenied")), "{refused:?}");
    bucket.asked.clear_rules();
    let taking = bucket.taking("4", "runs/d/");
    taking.acquire().await.unwrap();
    later().await;
    assert!(above.confirm().await.is_err());
    taking.release().await;
    later().await;
    above.confirm().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_does_not_answer_is_waited_for() {
    let bucket = Bucket::new();
    let claim = bucket.claim("1", "");
    bucket.asked.rule(Rule::always("GetObject", Fault::Fail("ServiceUnavailable", 503)));
    claim.check().await.unwrap();
    claim.acquire().await.unwrap();

    assert!(claim.confirm().await.unwrap_err().contains("ServiceUnavailable"));
    bucket.asked.clear_rules();
    tokio::time::advance(RETRY_PAUSE).await;
    claim.confirm().await.unwrap();
    bucket.asked.rule(Rule::always("GetObject", Fault::Fail("ServiceUnavailable", 503)));
    tokio::time::advance(CHECK_VALIDITY / 2).await;
    claim.confirm().await.unwrap();
    later().await;
    assert!(claim.confirm().await.is_err());
    assert_eq!(claim.refusal(), None);
    assert_eq!(bucket.keys().await, [CLAIM]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_and_a_lost_answer_leave_one_claim_or_none() {
    let bucket = Bucket::new();
    bucket.asked.rule(Rule::always("PutObject", Fault::Fail("AccessDenied", 403)));
    let refused = bucket.claim("1", "").acquire().await.unwrap_err();
    assert!(matches!(&refused, ClaimError::Failed(text) if text.contains("AccessDenied")), "{refused:?}");
    bucket.asked.clear_rules();
    bucket.asked.rule(Rule::once("PutObject", Fault::LoseReply));
    let claim = bucket.claim("1", "");
    claim.acquire().await.unwrap();
    assert_eq!(bucket.keys().await, [CLAIM]);
    claim.release().await;
    assert!(bucket.keys().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_file_of_that_name_is_no_claim_and_is_replaced_when_that_is_asked_for() {
    let bucket = Bucket::new();
    bucket.put(CLAIM, "text").await;
    let told = async |cache: &str| bucket.claim(cache, "").acquire().await.unwrap_err().into_text();
    assert!(told("1").await.contains("or another file"));
    bucket.put(CLAIM, r#"{"format":9,"cache":"2","host":"h","share":"s","source":"","since":""}"#).await;
    assert!(told("1").await.contains("another version of this program"));
    let odd = r#"{"format":1,"cache":"2","host":"h\u001b[2Jx","share":"s","source":"","since":""}"#;
    bucket.put(CLAIM, odd).await;
    assert!(told("1").await.contains("the gateway on h[2Jx writes"));
    bucket.taking("1", "").acquire().await.unwrap();
    assert!(told("2").await.contains("share share-1"));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_removed_is_made_again_and_a_background_look_sees_another_ones() {
    let bucket = Bucket::new();
    let claim = Arc::new(bucket.claim("1", ""));
    claim.acquire().await.unwrap();
    bucket.store.delete(ObjectRef::new("b", CLAIM)).await.unwrap();
    let stop = CancellationToken::new();
    let (kept, until) = (Arc::clone(&claim), stop.clone());
    let keeping = tokio::spawn(async move { kept.keep(until).await });

    tokio::time::sleep(CHECK_INTERVAL + RETRY_PAUSE).await;

    assert_eq!(bucket.keys().await, [CLAIM]);
    bucket.taking("2", "").acquire().await.unwrap();
    claim.confirm().await.unwrap();
    claim.invalidate();
    assert!(claim.confirm().await.is_err());
    assert!(claim.refusal().unwrap().contains("share share-2"));
    stop.cancel();
    keeping.await.unwrap();
}
