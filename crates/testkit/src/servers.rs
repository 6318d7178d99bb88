//! Real S3 servers on loopback for Rust tests: versitygw and SeaweedFS, two independent implementations.
//!
//! [`server`] gives the one of a kind that a test process shares, [`S3Server::fresh_bucket`] a place of its own for
//! each test. A server whose binary is missing is a skip that says so, and a failure where
//! `SEQFERRY_REQUIRE_SERVERS=1`.
//!
//! Each server runs under `supervise.sh`, which ends it and removes its data when its standard input ends: a pipe that
//! this process holds. So the death of a test process, however sudden, leaves no server behind.

mod seaweedfs;
mod versitygw;

use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub use crate::signed::{Credentials, REGION, Reply};
use crate::{signed, variable};

/// Prepares and reads back; never subject to bucket policies on versitygw.
pub const ADMIN: Credentials = Credentials { access_key: "admin", secret_key: "adminsecret" };

/// The identity of the code under test.
pub const MOVER: Credentials = Credentials { access_key: "mover", secret_key: "moversecret" };

/// A loaded machine took 20 s once.
const READY_WITHIN: Duration = Duration::from_secs(90);

const ATTEMPTS: usize = 4;

/// S3 server implementation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServerKind {
    /// The most faithful to AWS.
    Versitygw,
    /// Differs exactly where clients make hidden assumptions: order of listings, `ETag`s, keys taken for others.
    Seaweedfs,
}

impl ServerKind {
    /// Both implementations, for tests that run on each.
    pub const ALL: [Self; 2] = [Self::Versitygw, Self::Seaweedfs];

    /// Returns the name as the tables of the tests write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Versitygw => "versitygw",
            Self::Seaweedfs => "seaweedfs",
        }
    }
}

/// A running server; ends when dropped.
#[derive(Debug)]
pub struct S3Server {
    kind: ServerKind,
    endpoint_url: String,
    // Held for its end: dropping it closes the pipe.
    _supervisor: Supervisor,
}

/// The server of this kind that the whole test process shares; None, after one clear line, when it is not installed.
///
/// # Panics
/// When it is installed and does not start; or is not installed and `SEQFERRY_REQUIRE_SERVERS=1`.
pub fn server(kind: ServerKind) -> Option<&'static S3Server> {
    static SERVERS: [OnceLock<Result<S3Server, StartError>>; 2] = [const { OnceLock::new() }; 2];
    let started = SERVERS[kind as usize].get_or_init(|| {
        let started = S3Server::start(kind);
        if let Err(StartError::Missing(what)) = &started {
            // Past the capture of the test harness: a skip is to be seen.
            let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
        }
        started
    });
    match started {
        Ok(server) => Some(server),
        Err(StartError::Missing(what)) => {
            assert!(variable("SEQFERRY_REQUIRE_SERVERS").as_deref() != Some("1"), "{what}");
            None
        }
        Err(StartError::Failed(why)) => panic!("{} does not start: {why}", kind.name()),
    }
}

/// Reason why no server is available.
#[derive(Debug)]
pub enum StartError {
    /// Its binary is not installed; the text says how to get it.
    Missing(String),
    /// The server was started and did not become ready.
    Failed(String),
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl S3Server {
    /// Starts a server of one's own; most tests share one by [`server`].
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub fn start(kind: ServerKind) -> Result<Self, StartError> {
        match kind {
            ServerKind::Versitygw => versitygw::start(),
            ServerKind::Seaweedfs => seaweedfs::start(),
        }
    }

    /// Implementation of this server.
    pub fn kind(&self) -> ServerKind {
        self.kind
    }

    /// Returns the URL for clients: `http://127.0.0.1:port`.
    pub fn endpoint_url(&self) -> &str {
        &self.endpoint_url
    }

    /// A new bucket that [`MOVER`] and [`ADMIN`] may use.
    ///
    /// # Panics
    /// When the server refuses it.
    pub fn fresh_bucket(&self) -> String {
        let name = format!("bucket-{:016x}", fastrand::u64(..));
        // On versitygw a bucket belongs to its creator, and only the owner and the root account have access.
        let creator = if self.kind == ServerKind::Versitygw { MOVER } else { ADMIN };
        let reply = self.request(creator, "PUT", &format!("/{name}"), &[], b"");
        assert_eq!(reply.status, 200, "creating bucket {name}: {}", reply.text());
        name
    }

    /// One signed request, see [`signed::request`].
    ///
    /// # Panics
    /// When there is no answer.
    pub fn request(
        &self,
        credentials: Credentials,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        signed::request(&self.endpoint_url, credentials, method, target, headers, body)
            .unwrap_or_else(|error| panic!("{method} {target} on {}: {error}", self.kind.name()))
    }
}

/// The shell that guards a server process.
#[derive(Debug)]
struct Supervisor {
    shell: Child,
    folder: PathBuf,
}

impl Supervisor {
    /// Starts a command that ends with this process; `folder` is its throw-away data.
    fn spawn(mut command: Command, folder: &Path) -> io::Result<Self> {
        let log = std::fs::File::create(folder.join("log"))?;
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", include_str!("servers/supervise.sh"), "supervise", "KILL"]).arg(folder);
        shell.arg(command.get_program()).args(command.get_args());
        // Variables that servers would read: SeaweedFS makes the AWS credentials of its environment an administrator.
        for (name, _) in std::env::vars_os() {
            let taken = name.to_str().is_some_and(|name| ["AWS_", "VGW_", "WEED_"].iter().any(|p| name.starts_with(p)));
            if taken {
                shell.env_remove(name);
            }
        }
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                shell.env(name, value);
            }
        }
        command.env_clear();
        shell.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log).current_dir(folder).process_group(0);
        Ok(Self { shell: shell.spawn()?, folder: folder.to_owned() })
    }

    fn ended(&mut self) -> bool {
        !matches!(self.shell.try_wait(), Ok(None))
    }

    fn log(&self) -> String {
        let log = std::fs::read(self.folder.join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Waits until `ready` says so. False when the server ended meanwhile, most likely since its port was taken.
fn await_ready(supervisor: &mut Supervisor, mut ready: impl FnMut() -> bool) -> Result<bool, StartError> {
    let deadline = Instant::now() + READY_WITHIN;
    while !ready() {
        if supervisor.ended() {
            return Ok(false);
        }
        if Instant::now() >= deadline {
            let log = supervisor.log();
            return Err(StartError::Failed(format!("not ready after {READY_WITHIN:?}; it printed:\n{log}")));
        }
        std::thread::sleep(Duration::from_millis(30));
    }
    Ok(true)
}

/// A folder of its own for a server's data.
fn new_folder(kind: ServerKind) -> io::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("seqferry-{}-{:016x}", kind.name(), fastrand::u64(..)));
    std::fs::create_dir(&folder)?;
    Ok(folder)
}

/// Ports that are free now, each with the one 10,000 above, from which SeaweedFS makes its second port.
///
/// Both lie below the range from which the system takes ports for outgoing connections. Another process may take one
/// before the server does: then the server ends immediately and is started again on other ports.
fn free_ports<const N: usize>() -> [u16; N] {
    // Kept open until all are found, so that none is given twice.
    let mut claims: Vec<TcpListener> = Vec::new();
    std::array::from_fn(|_| {
        loop {
            let port = fastrand::u16(12_000..22_000);
            let pair = (TcpListener::bind(("127.0.0.1", port)), TcpListener::bind(("127.0.0.1", port + 10_000)));
            if let (Ok(first), Ok(second)) = pair {
                claims.extend([first, second]);
                return port;
            }
        }
    })
}

/// A tool by its environment variable, in a folder of the checkout, or on the path.
fn find_tool(name: &str, named_by: &str, folder: &str, hint: &str) -> Result<PathBuf, StartError> {
    if let Some(named) = variable(named_by) {
        let path = PathBuf::from(&named);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(StartError::Failed(format!("{named_by} names {named}, which does not exist")))
        };
    }
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|above| above.join(folder).join(name));
    let path = variable("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(name)).collect::<Vec<_>>();
    checkout
        .chain(on_path)
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| StartError::Missing(format!("{name} is not installed: {hint}")))
}
