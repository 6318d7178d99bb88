//! Cost of one request in this process, layer by layer: CPU time and memory.
//!
//! Usage: `make bench-requests`, or `request_costs PATH_OF_S3SIM [--requests N] [--in-flight N] [--rounds N] [--seconds
//! S] [--layers store,requests,...] [--operations copy,part,head,list]`. Each measurement is a separate process,
//! started again for each round in turn. It works against one simulator that answers immediately (or after `--seconds`,
//! for the memory of requests in flight). Layers:
//!
//! - `store`: [`S3Store`], one request; for `head` and `list` (a page of 1,000 keys) the only layer;
//! - `requests`: the same within a budget, with retries, cancelling and hedged requests;
//! - `job`: objects copied by a job, with all that belongs to it (for parts: objects of 200 parts of 128 MiB).
//!
//! CPU is user and system time of the process, including its share of loopback TCP. Connections are opened before. The
//! output is one JSON object per measurement and a table: median and range over the rounds.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use seqferry_client::{Budget, BudgetLimits};
use seqferry_client::{Endpoint, RequestMetrics, RequestSpec, RetryContext, RetryPolicy, RetryingClient};
use seqferry_store::prelude::*;
use seqferry_store::{
    CopyTarget, CreateUpload, Credentials, EndpointOptions, ListRequest, ObjectRef, PinnedObject, Range, S3Store,
    UploadRef,
};
use seqferry_store_testing::connect;
use seqferry_transfer::{Job, JobEvent, JobItem, JobSpec, Policy, Scheduler};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// The allocator that the wheel uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const LAYERS: [&str; 3] = ["store", "requests", "job"];
const OPERATIONS: [&str; 4] = ["copy", "part", "head", "list"];
const PART: u64 = 128 << 20;
/// Parts of one object, as the simulator's objects are made below.
const PARTS: u64 = 200;

struct Options {
    requests: u64,
    in_flight: u64,
    rounds: u64,
    seconds: f64,
    layers: Vec<String>,
    operations: Vec<String>,
}

/// User and system time of this process in seconds.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // Behind the name, which may hold spaces: state is field 3, the times are 14 and 15, in ticks of 10 ms.
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    (fields[11].parse::<f64>().unwrap_or(0.0) + fields[12].parse::<f64>().unwrap_or(0.0)) / 100.0
}

/// A line of this process's status in MiB.
fn mib(name: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

async fn store_at(url: &str) -> Arc<S3Store> {
    let credentials = Credentials { access_key: "AKIDBENCH".to_owned(), secret_key: "secret".to_owned() };
    Arc::new(
        connect(EndpointOptions {
            endpoint_url: Some(url.to_owned()),
            region: Some("us-east-1".to_owned()),
            credentials: Some(credentials),
            ..EndpointOptions::default()
        })
        .await,
    )
}

/// Returns the source of request number `n`: all objects of the simulator have one size, so the number names key and
/// part.
fn source(operation: &str, n: u64) -> (PinnedObject, Range) {
    let (key, bytes, first) = match operation {
        "copy" | "head" | "list" => (format!("k/{n:08}"), 1024, 0),
        _ => (format!("run/{:04}", n / PARTS), PART, (n % PARTS) * PART),
    };
    let source = PinnedObject { bucket: operation.to_owned(), key, version_id: None, if_match: None, size: bytes };
    (source, Range { first, last: first + bytes - 1 })
}

/// Makes one request of a layer, again and again.
enum Caller {
    Store(Arc<S3Store>),
    Requests(RetryingClient),
}

impl Caller {
    async fn new(layer: &str, url: &str, in_flight: u64) -> Self {
        if layer == "store" {
            return Self::Store(store_at(url).await);
        }
        let limits =
            BudgetLimits { max_requests: usize::try_from(in_flight).unwrap_or(usize::MAX), ..BudgetLimits::default() };
        let connection = Endpoint::new(store_at(url).await as Arc<dyn ObjectStore>);
        let counters = Arc::new(RequestMetrics::default());
        let (policy, cancel) = (RetryPolicy::default(), CancellationToken::new());
        Self::Requests(RetryingClient::new(connection, Budget::new(limits), policy, cancel, counters))
    }

    async fn call(&self, operation: &str, upload: &str, n: u64) {
        let (source, range) = source(operation, n);
        let key = format!("copy/{n:08}");
        let part = u32::try_from(n % PARTS + 1).unwrap_or(1);
        match (self, operation) {
            (Self::Store(store), "head") => {
                store.head(ObjectRef::new("copy", &source.key), None).await.expect("checked");
            }
            (Self::Store(store), "list") => {
                let start_after = Some(format!("k/{n:08}"));
                let request = ListRequest { bucket: "copy".to_owned(), start_after, ..ListRequest::default() };
                assert_eq!(store.list(&request).await.expect("listed").objects.len(), 1000);
            }
            (Self::Store(store), "copy") => {
                store.copy(&source, CopyTarget::new("dst", &key)).await.expect("copied");
            }
            (Self::Store(store), _) => {
                store.copy_part(&source, range, UploadRef::new("dst", "part", upload), part).await.expect("copied");
            }
            (Self::Requests(requests), "copy") => {
                let call = RequestSpec::write("CopyObject", "dst").bytes(1024);
                let retry_context = RetryContext::default();
                let (source, key) = (&source, &key);
                requests
                    .call(call, &retry_context, async |store| store.copy(source, CopyTarget::new("dst", key)).await)
                    .await
                    .expect("copied");
            }
            (Self::Requests(requests), _) => {
                let call = RequestSpec::write("UploadPartCopy", "dst").bytes(PART).hedge_if(&|| true);
                let retry_context = RetryContext::default();
                let source = &source;
                requests
                    .call(call, &retry_context, async |store| {
                        store.copy_part(source, range, UploadRef::new("dst", "part", upload), part).await
                    })
                    .await
                    .expect("copied");
            }
        }
    }
}

async fn by_request(url: &str, operation: &str, layer: &str, options: &Options) -> f64 {
    let caller = Arc::new(Caller::new(layer, url, options.in_flight).await);
    let create = CreateUpload { bucket: "dst".to_owned(), key: "part".to_owned(), ..CreateUpload::default() };
    let upload: Arc<str> = store_at(url).await.create_upload(&create).await.expect("an upload").into();
    let mut measured = 0.0;
    // The first round opens the connections.
    for count in [options.in_flight, options.requests] {
        let before = cpu_seconds();
        let next = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..options.in_flight)
            .map(|_| {
                let (caller, next) = (Arc::clone(&caller), Arc::clone(&next));
                let (operation, upload) = (operation.to_owned(), Arc::clone(&upload));
                tokio::spawn(async move {
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= count {
                            return;
                        }
                        caller.call(&operation, &upload, n).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("a task");
        }
        measured = cpu_seconds() - before;
    }
    measured
}

/// The first `count` objects of a bucket as items of a job.
async fn items(store: &S3Store, bucket: &str, count: usize) -> Vec<JobItem> {
    let mut items = Vec::with_capacity(count);
    let mut request = ListRequest { bucket: bucket.to_owned(), ..ListRequest::default() };
    while items.len() < count {
        let page = store.list(&request).await.expect("a page");
        for object in page.objects.into_iter().take(count - items.len()) {
            let target_key = format!("job/{}", object.key);
            items.push(JobItem {
                id: items.len() as u64,
                source_key: object.key,
                target_key,
                size: object.size,
                etag: object.etag,
                target_absent: true,
                ..JobItem::default()
            });
        }
        let Some(token) = page.continuation else { break };
        request.continuation = Some(token);
    }
    items
}

async fn by_job(url: &str, operation: String, options: &Options) -> f64 {
    let store = store_at(url).await;
    let objects = if operation == "copy" { options.requests } else { options.requests.div_ceil(PARTS) };
    let items = items(&store, &operation, usize::try_from(objects).unwrap_or(usize::MAX)).await;
    let limits = BudgetLimits {
        max_requests: usize::try_from(options.in_flight).unwrap_or(usize::MAX),
        ..BudgetLimits::default()
    };
    let (scheduler, connection) = (Scheduler::new(Budget::new(limits)), Endpoint::new(store as Arc<dyn ObjectStore>));
    let policy = Policy { source_bucket: operation, target_bucket: "dst".to_owned(), ..Policy::default() };
    let before = cpu_seconds();
    // As the control plane does: batches of a thousand, several concurrently.
    let mut batches: Vec<_> = Vec::new();
    let mut items = items.into_iter().peekable();
    while items.peek().is_some() {
        batches.push(items.by_ref().take(1000).collect::<Vec<_>>());
    }
    let running = tokio::sync::Semaphore::new(8);
    let all = batches.into_iter().map(|batch| {
        let (scheduler, connection, policy, running) = (&scheduler, &connection, &policy, &running);
        async move {
            let _running = running.acquire().await.expect("open");
            let (source, target) = (connection.clone(), connection.clone());
            let (policy, retry) = (policy.clone(), RetryPolicy::default());
            let spec = JobSpec { source, target, policy, retry, items: batch, lease: None };
            let job = Job::start(&Handle::current(), scheduler, spec);
            tokio::task::spawn_blocking(move || {
                while !job.is_finished() {
                    for event in job.wait(Duration::from_millis(500)) {
                        match event {
                            JobEvent::RecordUpload { id, .. } => job.acknowledge(&[id]),
                            JobEvent::Ended(outcome) => assert!(outcome.failure.is_none(), "{outcome:?}"),
                        }
                    }
                }
            })
            .await
            .expect("a job");
        }
    });
    futures::future::join_all(all).await;
    cpu_seconds() - before
}

/// One measurement, in this process.
fn measure(url: &str, operation: &str, layer: &str, options: &Options) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let resting = mib("VmRSS");
    let began = Instant::now();
    let cpu = runtime.block_on(async {
        match layer {
            "job" => by_job(url, operation.to_owned(), options).await,
            _ => by_request(url, operation, layer, options).await,
        }
    });
    let peak = mib("VmHWM");
    println!(
        "{}",
        json!({
            "operation": operation, "layer": layer, "requests": options.requests, "in_flight": options.in_flight,
            "seconds": options.seconds, "cpu_us": cpu * 1e6 / options.requests as f64,
            "per_second": options.requests as f64 / began.elapsed().as_secs_f64(),
            "resting_mib": resting, "peak_mib": peak,
            "kib_in_flight": (peak - resting) * 1024.0 / options.in_flight as f64,
        })
    );
}

fn parse(arguments: &mut impl Iterator<Item = String>) -> Options {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let mut options = Options {
        requests: 40_000,
        in_flight: 256,
        rounds: 3,
        seconds: 0.0,
        layers: words(&LAYERS),
        operations: words(&OPERATIONS),
    };
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{name} wants a value"));
        let number = || value.parse().unwrap_or_else(|_| panic!("{name} {value}: not a number"));
        let list = |known: &[&str]| {
            let list: Vec<String> = value.split(',').map(str::to_owned).collect();
            assert!(list.iter().all(|word| known.contains(&word.as_str())), "{name} {value}: not among {known:?}");
            list
        };
        match name.as_str() {
            "--requests" => options.requests = number(),
            "--in-flight" => options.in_flight = number(),
            "--rounds" => options.rounds = number(),
            "--seconds" => options.seconds = value.parse().unwrap_or_else(|_| panic!("{name} {value}: not a number")),
            "--layers" => options.layers = list(&LAYERS),
            "--operations" => options.operations = list(&OPERATIONS),
            other => panic!("unknown option {other}"),
        }
    }
    options
}

fn all_in_turns(program: &str, options: &Options) {
    let mut sim = Command::new(program)
        .args(["--instant", "--bucket", "dst"])
        .args(["--bucket", "part=keys=run/{i:04};count=10000;size=25 GiB"])
        .args(["--bucket", "copy=keys=k/{i:08};count=100000000;size=1 KiB"])
        .args(["--set", &format!("model.part_copy.base_seconds={}", options.seconds)])
        .args(["--set", &format!("model.copy.base_seconds={}", options.seconds)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("s3sim");
    let mut line = String::new();
    BufReader::new(sim.stdout.take().expect("its output")).read_line(&mut line).expect("its first line");
    let ready: Value = serde_json::from_str(&line).expect("its address");
    let url = ready["endpoint_url"].as_str().expect("its address").to_owned();
    let own = std::env::current_exe().expect("this program");
    let mut results: BTreeMap<(String, usize), Vec<Value>> = BTreeMap::new();
    for _ in 0..options.rounds {
        for operation in &options.operations {
            for layer in &options.layers {
                if ["head", "list"].contains(&operation.as_str()) && layer != "store" {
                    continue;
                }
                let output = Command::new(&own)
                    .args(["run", url.as_str(), operation.as_str(), layer.as_str()])
                    .args(["--requests", &options.requests.to_string()])
                    .args(["--in-flight", &options.in_flight.to_string()])
                    .args(["--seconds", &options.seconds.to_string()])
                    .stderr(Stdio::inherit())
                    .output()
                    .expect("a measurement");
                assert!(output.status.success(), "{operation} {layer} failed");
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                print!("{text}");
                let place = LAYERS.iter().position(|known| known == layer).unwrap_or_default();
                let measured = serde_json::from_str(&text).expect("a result");
                results.entry((operation.clone(), place)).or_default().push(measured);
            }
        }
    }
    drop(sim.stdin.take());
    sim.wait().expect("its end");
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "\n{} requests, {} in flight, {} s each, {} rounds; load {}",
        options.requests,
        options.in_flight,
        options.seconds,
        options.rounds,
        load.split(' ').next().unwrap_or_default()
    );
    println!("operation  layer     CPU us            peak MiB          KiB per request in flight");
    for ((operation, place), measured) in results {
        let spread = |name: &str| {
            let mut values: Vec<f64> = measured.iter().filter_map(|value| value[name].as_f64()).collect();
            values.sort_by(f64::total_cmp);
            format!("{:.0} [{:.0}..{:.0}]", values[values.len() / 2], values[0], values[values.len() - 1])
        };
        println!(
            "{operation:<10} {:<9} {:<17} {:<17} {}",
            LAYERS[place],
            spread("cpu_us"),
            spread("peak_mib"),
            spread("kib_in_flight")
        );
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().expect("the path of s3sim");
    if first == "run" {
        let mut word = || arguments.next().expect("run URL OPERATION LAYER");
        let (url, operation, layer) = (word(), word(), word());
        measure(&url, &operation, &layer, &parse(&mut arguments));
    } else {
        all_in_turns(&first, &parse(&mut arguments));
    }
}
