//! Starting versitygw.

use std::process::Command;

use super::{
    ADMIN, ATTEMPTS, MOVER, S3Server, ServerKind, StartError, Supervisor, await_ready, find_tool, free_ports,
    new_folder,
};
use crate::signed;

pub(super) fn start() -> Result<S3Server, StartError> {
    let binary = find_tool("versitygw", "SEQFERRY_VERSITYGW", ".tools/bin", "run `make tools` (needs Go)")?;
    let mut said = String::new();
    for attempt in 0..ATTEMPTS {
        let folder = new_folder(ServerKind::Versitygw)?;
        for name in ["iam", "data", "versions", "sidecar"] {
            std::fs::create_dir(folder.join(name))?;
        }
        let [port] = free_ports();
        let endpoint_url = format!("http://127.0.0.1:{port}");
        let mut command = Command::new(&binary);
        command.args(["--port", &format!("127.0.0.1:{port}"), "--quiet", "--keep-alive", "--iam-dir"]);
        command.arg(folder.join("iam")).args(["posix", "--versioning-dir"]).arg(folder.join("versions"));
        // Metadata lives in extended attributes. Where it does not start with them, the file system may have none.
        if attempt % 2 == 1 {
            command.arg("--sidecar").arg(folder.join("sidecar"));
        }
        command.arg(folder.join("data"));
        command.env("ROOT_ACCESS_KEY", ADMIN.access_key).env("ROOT_SECRET_KEY", ADMIN.secret_key);
        let mut supervisor = Supervisor::spawn(command, &folder)?;
        let answers = || {
            let reply = signed::request(&endpoint_url, ADMIN, "GET", "/", &[], b"");
            reply.is_ok_and(|reply| reply.status == 200)
        };
        if await_ready(&mut supervisor, answers)? {
            create_user(&binary, &endpoint_url)?;
            return Ok(S3Server { kind: ServerKind::Versitygw, endpoint_url, _supervisor: supervisor });
        }
        said = supervisor.log();
    }
    Err(StartError::Failed(said))
}

fn create_user(binary: &std::path::Path, endpoint_url: &str) -> Result<(), StartError> {
    let output = Command::new(binary)
        .args(["admin", "create-user", "--role", "userplus"])
        .args(["--access", MOVER.access_key, "--secret", MOVER.secret_key])
        .env("ADMIN_ENDPOINT_URL", endpoint_url)
        .env("ADMIN_ACCESS_KEY", ADMIN.access_key)
        .env("ADMIN_SECRET_KEY", ADMIN.secret_key)
        .output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(StartError::Failed(format!("creating a user: {}", String::from_utf8_lossy(&output.stderr))))
    }
}
