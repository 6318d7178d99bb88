//! A gateway for tests of writing: what clients write stays on this machine, or goes to the bucket.
//!
//! Usage: `writable_gateway FOLDER BUCKET PREFIX PORT [QUIET]`. With a number of milliseconds files that were quiet for
//! that long are uploaded. Endpoint and credentials come from the environment. It serves
//! `/runs` until it is killed; journal, data and key are in the folder. It prints its address once clients can mount.

use std::path::PathBuf;
use std::time::Duration;

use seqferry_client::EndpointSpec;
use seqferry_gateway::{GatewaySpec, ShareDefaults, ShareSpec};
use seqferry_nfs::Squash;
use seqferry_store::EndpointOptions;
use seqferry_vfs::TreeOptions;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().unwrap_or_else(|| panic!("{what} is missing"));
    let folder = PathBuf::from(next("FOLDER"));
    let (bucket, prefix) = (next("BUCKET"), next("PREFIX"));
    let port: u16 = next("PORT").parse().expect("a number of a port");
    let quiet = arguments.next().map(|quiet| Duration::from_millis(quiet.parse().expect("milliseconds")));
    let share = ShareSpec {
        name: "runs".to_owned(),
        endpoint: EndpointSpec::Service(EndpointOptions::default()),
        endpoint_name: "test".to_owned(),
        tree: TreeOptions { prefix, ..TreeOptions::bucket(&bucket) },
        clients: Vec::new(),
        squash: Squash::None,
        anonymous: (65534, 65534),
        defaults: ShareDefaults::default(),
    };
    let spec = GatewaySpec {
        address: ([127, 0, 0, 1], port).into(),
        state: folder.join("state"),
        cache: None,
        memory: 256 << 20,
        max_requests: 64,
        max_bandwidth: None,
        shares: vec![share],
    };
    let writes = folder.join("writes");
    let gateway = match quiet {
        Some(quiet) => spec.start_with_upload(&writes, quiet),
        None => spec.start_without_upload(&writes),
    };
    let mut gateway = gateway.unwrap_or_else(|error| panic!("{error}"));
    let address = gateway.address();
    println!("s3://{bucket} is served at {}:/runs, port {}.", address.ip(), address.port());
    while !gateway.wait(Duration::from_hours(1)) {}
}
