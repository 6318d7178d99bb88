//! The socket of the control: clients, lines, and who may connect.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use super::GatewayControl;
use super::requests::{ControlRequest, encode_reply, invalid_request_text};
use crate::error::GatewayError;

/// Name of the socket in the cache.
pub(super) const NAME: &str = "gateway.sock";
/// Bytes of a request: a path of 1,024 bytes, each written with six characters, and the words around it.
const MAX_REQUEST_BYTES: u64 = 8 << 10;
/// Longest wait for a request, and for a client to take its answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Wait after a client could not be accepted: too many files are open.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(200);

/// A socket that listens. Its file is removed at the end.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    path: PathBuf,
    listener: UnixListener,
}

impl ControlSocket {
    /// Listen in a folder that this process has claimed: a socket there is left over.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub(crate) fn bind(folder: &Path) -> Result<Self, GatewayError> {
        let path = folder.join(NAME);
        let bound = bind(folder, &path);
        let cannot = |error| GatewayError(format!("the socket {} cannot be made: {error}", path.display()));
        Ok(Self { listener: bound.map_err(cannot)?, path })
    }

    /// Answer clients until the end.
    pub(crate) async fn serve(self, controlled: Arc<GatewayControl>, stop: CancellationToken) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
                continue;
            };
            let (controlled, stop) = (Arc::clone(&controlled), stop.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    _ended = serve_client(&controlled, stream) => {}
                }
            });
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // A client finds no gateway either way.
        let _removed = fs::remove_file(&self.path);
    }
}

/// Paths of sockets have 107 bytes at most: that of the folder is the short one of its descriptor.
fn bind(folder: &Path, path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let opened = File::open(folder)?;
    let listener = UnixListener::bind(format!("/proc/self/fd/{}/{NAME}", opened.as_raw_fd()))?;
    // The folder is this user's alone, so no other user has connected in between.
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn send_line(stream: &mut (impl tokio::io::AsyncWrite + Unpin), line: &str) -> io::Result<()> {
    let line = format!("{line}\n");
    tokio::time::timeout(CLIENT_TIMEOUT, stream.write_all(line.as_bytes())).await?
}

/// One request and its answer.
async fn serve_client(controlled: &Arc<GatewayControl>, stream: UnixStream) -> io::Result<()> {
    let (reading, mut writing) = stream.into_split();
    let mut reading = BufReader::new(reading.take(MAX_REQUEST_BYTES));
    let mut line = String::new();
    {
        let place = controlled.client_limits.begin_read();
        tokio::select! {
            () = place.close.cancelled() => return Ok(()),
            read = tokio::time::timeout(CLIENT_TIMEOUT, reading.read_line(&mut line)) => drop(read??),
        }
    }
    let request = match serde_json::from_str::<ControlRequest>(&line) {
        _ if !line.ends_with('\n') => Err(format!("a request is one line of less than {MAX_REQUEST_BYTES} bytes")),
        request => request.map_err(|error| invalid_request_text(&error)),
    };
    let place = request.and_then(|request| Ok((controlled.client_limits.admit(&request)?, request)));
    let (_place, request) = match place {
        Ok(found) => found,
        Err(text) => return send_line(&mut writing, &encode_reply(Err(text))).await,
    };
    let mut rest = reading.into_inner().into_inner();
    let answer = tokio::select! {
        answer = controlled.answer(request) => answer,
        () = wait_for_disconnect(&mut rest) => return Ok(()),
    };
    send_line(&mut writing, &encode_reply(answer)).await
}

/// Returns when the client has closed its end.
async fn wait_for_disconnect(stream: &mut (impl tokio::io::AsyncRead + Unpin)) {
    let mut byte = [0; 1];
    while matches!(stream.read(&mut byte).await, Ok(1..)) {}
}
