//! Overhead of the client for one request, in nanoseconds of CPU: budget, retry loop, hedge timer, metrics and spans.
//!
//! `cargo run --release -p seqferry-client --example request_overhead [-- ROUNDS]`. The store answers immediately from
//! memory, on one thread. Prints the smallest round (of 200,000 requests each) of a read and of a write, which noise of
//! the machine disturbs least. With `SEQFERRY_TRACE` set to a file, spans are written to it.

use std::sync::Arc;
use std::time::Instant;

use seqferry_client::{Budget, BudgetLimits};
use seqferry_client::{Endpoint, RequestMetrics, RequestSpec, RetryContext, RetryPolicy, RetryingClient};
use seqferry_store_testing::MemoryStore;
use tokio_util::sync::CancellationToken;

const REQUESTS: u32 = 200_000;

async fn round(client: &RetryingClient, spec: RequestSpec<'_>) -> f64 {
    let retry_context = RetryContext::default();
    let started = Instant::now();
    for _ in 0..REQUESTS {
        client.call(spec, &retry_context, async |_store| Ok(())).await.expect("the store answers");
    }
    started.elapsed().as_secs_f64() * 1e9 / f64::from(REQUESTS)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(20);
    let connection = Endpoint::new(Arc::new(MemoryStore::default()));
    let budget = Budget::new(BudgetLimits::default());
    let metrics = Arc::new(RequestMetrics::default());
    let client = RetryingClient::new(connection, budget, RetryPolicy::default(), CancellationToken::new(), metrics)
        .within("run/");
    let (mut read, mut write) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..rounds {
        read = read.min(round(&client, RequestSpec::read("HeadObject", "bucket")).await);
        write = write.min(round(&client, RequestSpec::write("PutObject", "bucket")).await);
    }
    println!("read {read:.0} ns, write {write:.0} ns");
}
