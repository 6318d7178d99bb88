//! A gateway for tests of writing, whose files settle within milliseconds.
//!
//! Usage: `writable_gateway FOLDER BUCKET PREFIX PORT [QUIET]`. Files that were quiet for this number of milliseconds
//! are uploaded; without it they are not. Endpoint and credentials come from the environment, where
//! `SEQFERRY_CRASH_AT=NAME:N` ends it at the N-th visit of a crash point. It serves `/runs` until it is killed;
//! journal, data and key are in the folder. It prints its address once clients can mount.

use std::path::PathBuf;
use std::time::Duration;

use seqferry_client::EndpointSpec;
use seqferry_gateway::{GatewaySpec, ShareDefaults, ShareSpec, WriteSettings};
use seqferry_nfs::Squash;
use seqferry_store::{EndpointOptions, crash_point};
use seqferry_vfs::TreeOptions;
use seqferry_vfs::disk_cache::CacheLimits;

#[expect(clippy::disallowed_methods, reason = "this is the entry point")]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().unwrap_or_else(|| panic!("{what} is missing"));
    let folder = PathBuf::from(next("FOLDER"));
    let (bucket, prefix) = (next("BUCKET"), next("PREFIX"));
    let port: u16 = next("PORT").parse().expect("a number of a port");
    let quiet = arguments.next().map(|quiet| Duration::from_millis(quiet.parse().expect("milliseconds")));
    if let Ok(point) = std::env::var("SEQFERRY_CRASH_AT") {
        let (name, visit) = point.split_once(':').expect("NAME:N");
        assert!(crash_point::arm(name, visit.parse().expect("the number of a visit")), "{name} is no crash point");
    }
    // No test lasts a day.
    let settle = quiet.unwrap_or(Duration::from_hours(24));
    let share = ShareSpec {
        name: "runs".to_owned(),
        endpoint: EndpointSpec::Service(EndpointOptions::default()),
        endpoint_name: "test".to_owned(),
        tree: TreeOptions { prefix, ..TreeOptions::bucket(&bucket) },
        clients: Vec::new(),
        squash: Squash::None,
        anonymous: (65534, 65534),
        defaults: ShareDefaults::default(),
        writes: Some(WriteSettings { settle, ..WriteSettings::default() }),
    };
    let spec = GatewaySpec {
        address: Some(([127, 0, 0, 1], port).into()),
        port_mapping: None,
        state: folder.join("state"),
        cache: Some((folder.join("cache"), CacheLimits::default())),
        unsafe_cache: true,
        take_over: false,
        memory: 256 << 20,
        max_requests: 64,
        max_bandwidth: None,
        shares: vec![share],
    };
    let gateway = spec.start();
    let mut gateway = gateway.unwrap_or_else(|error| panic!("{error}"));
    let address = gateway.address().expect("the address was given");
    println!("s3://{bucket} is served at {}:/runs, port {}.", address.ip(), address.port());
    while !gateway.wait(Duration::from_hours(1)) {}
}
