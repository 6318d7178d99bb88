//! Gateways before real servers.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use seqferry_share::{Caller, CreateMode, SetAttributes, Stability};
use seqferry_store::{Credentials, EndpointOptions};
use seqferry_testkit::proxy::{Action, Condition, Proxy, ProxyRule};
use seqferry_testkit::servers::{ADMIN, MOVER, ServerKind, server};

use super::*;

const DEADLINE: Duration = Duration::from_mins(1);
/// Requests that change a bucket.
const WRITES: [&str; 5] =
    ["PutObject", "CreateMultipartUpload", "CompleteMultipartUpload", "CopyObject", "AbortMultipartUpload"];
const BYTES: &[u8] = b"acknowledged";

/// A folder that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("seqferry-service-{:016x}", fastrand::u64(..)));
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _left = fs::remove_dir_all(&self.0);
    }
}

/// A gateway of one share that is written, with its state and cache in this folder.
fn gateway(folder: &Path, endpoint: &str, bucket: &str, prefix: &str, settle: Duration) -> GatewaySpec {
    let credentials = Credentials { access_key: MOVER.access_key.to_owned(), secret_key: MOVER.secret_key.to_owned() };
    let endpoint = EndpointOptions {
        endpoint_url: Some(endpoint.to_owned()),
        region: Some("us-east-1".to_owned()),
        credentials: Some(credentials),
        ..EndpointOptions::default()
    };
    let share = ShareSpec {
        name: "runs".to_owned(),
        endpoint: EndpointSpec::Service(endpoint),
        endpoint_name: "test".to_owned(),
        tree: TreeOptions { prefix: prefix.to_owned(), ..TreeOptions::bucket(bucket) },
        clients: Vec::new(),
        squash: Squash::None,
        anonymous: (65534, 65534),
        defaults: ShareDefaults::default(),
        writes: Some(WriteSettings { settle, ..WriteSettings::default() }),
    };
    GatewaySpec {
        address: Some(([127, 0, 0, 1], 0).into()),
        port_mapping: None,
        state: folder.join("state"),
        cache: Some((folder.join("cache"), CacheLimits::default())),
        unsafe_cache: true,
        take_over: false,
        memory: 64 << 20,
        max_requests: 64,
        max_bandwidth: None,
        shares: vec![share],
    }
}

fn root() -> Caller {
    Caller { address: [127, 0, 0, 1].into(), uid: 0, gid: 0, groups: Vec::new() }
}

fn write(gateway: &Gateway, name: &str) {
    let (share, runtime) = gateway.first_share().unwrap();
    runtime.block_on(async {
        let how = CreateMode::Unchecked(SetAttributes::default());
        let made = share.create(&root(), share.root(), name.as_bytes(), how).await.unwrap();
        let file = made.attributes.file;
        share.write(&root(), file, 0, Bytes::from_static(BYTES), Stability::File).await.unwrap();
    });
}

fn read(gateway: &Gateway, name: &str) -> Vec<u8> {
    let (share, runtime) = gateway.first_share().unwrap();
    runtime.block_on(async {
        let found = share.lookup(&root(), share.root(), name.as_bytes()).await.unwrap();
        share.read(&root(), found.file, 0, 4096).await.unwrap().slices.concat()
    })
}

fn refuse_writes(proxy: &Proxy, status: u16, code: &str) {
    for operation in WRITES {
        proxy.add_rule(ProxyRule::on(operation, Action::error(status, code)));
    }
}

/// Each kind of refusal, with the claim of the share in the bucket and without it.
#[test]
fn a_share_with_a_journal_starts_while_the_bucket_refuses_writes_and_uploads_what_waits_later() {
    const LATE: Duration = Duration::from_hours(24);
    for kind in ServerKind::ALL {
        let Some(server) = server(kind) else { continue };
        let (bucket, proxy, folder) =
            (server.fresh_bucket(), Proxy::start(server.endpoint_url()).unwrap(), Scratch::new());
        let start = |settle| gateway(&folder.0, &proxy.endpoint_url(), &bucket, "runs/", settle).start();
        let first = start(LATE).unwrap();
        write(&first, "waits");
        drop(first);
        let claim = format!("/{bucket}/runs/.seqferry-share");
        for (status, code) in [
            (403, "AccessDenied"),
            (403, "QuotaExceeded"),
            (400, "InvalidRequest"),
            (501, "NotImplemented"),
            (507, "InsufficientStorage"),
            (503, "ServiceUnavailable"),
            (405, "MethodNotAllowed"),
        ] {
            refuse_writes(&proxy, status, code);
            for has_claim in [true, false] {
                if !has_claim {
                    server.request(ADMIN, "DELETE", &claim, &[], b"");
                }
                let again = start(LATE).unwrap_or_else(|error| panic!("{} {code}: {error}", kind.name()));
                assert_eq!(read(&again, "waits"), BYTES, "{code}");
            }
            proxy.clear_rules();
            // The claim is there again for the next refusal.
            drop(start(LATE).unwrap());
            assert_eq!(server.request(ADMIN, "HEAD", &claim, &[], b"").status, 200);
        }
        let last = start(Duration::from_millis(1)).unwrap();
        let file = || server.request(ADMIN, "GET", &format!("/{bucket}/runs/waits"), &[], b"");
        // Claims and probes of conditions are written before it.
        let written = || proxy.stats().operations.get("PutObject").map_or(0, |puts| puts.succeeded);
        let mut count = written();
        while file().status != 200 {
            count += 1;
            let more = Condition::Succeeded { operation: "PutObject".to_owned(), count };
            assert!(proxy.wait_blocking(&more, DEADLINE), "{}: the file that waited is not uploaded", kind.name());
        }
        assert_eq!(file().body, BYTES);
        drop(last);
    }
}

#[test]
fn a_share_that_is_new_or_that_another_gateway_writes_is_refused_as_before() {
    let Some(server) = server(ServerKind::Versitygw) else { return };
    let (bucket, proxy) = (server.fresh_bucket(), Proxy::start(server.endpoint_url()).unwrap());
    let (one, other) = (Scratch::new(), Scratch::new());
    let start = |folder: &Scratch| {
        gateway(&folder.0, &proxy.endpoint_url(), &bucket, "runs/", Duration::from_hours(24)).start()
    };
    refuse_writes(&proxy, 403, "AccessDenied");
    let told = start(&one).unwrap_err().0;
    assert!(told.contains("it cannot be written") && told.contains("read_only = true"), "{told}");
    proxy.clear_rules();
    let first = start(&one).unwrap();
    write(&first, "waits");
    drop(first);
    let told = start(&other).unwrap_err().0;
    assert!(told.contains("--take-over"), "{told}");
    let taking = gateway(&other.0, &proxy.endpoint_url(), &bucket, "runs/", Duration::from_hours(24));
    let taken = GatewaySpec { take_over: true, ..taking }.start().unwrap();
    write(&taken, "also-waits");
    drop(taken);
    refuse_writes(&proxy, 403, "AccessDenied");
    let told = start(&one).unwrap_err().0;
    assert!(told.contains("--take-over"), "the journal does not outweigh another claim: {told}");
}
