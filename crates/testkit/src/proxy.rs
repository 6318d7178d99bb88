//! A recording fault proxy for S3 over plain HTTP/1.1.
//!
//! The proxy stands between a client and a real server and passes everything on as it is: path, query, headers and
//! bytes. The `Host` header stays too, so that the server verifies the client's own signature. The proxy names the S3
//! operation of each request ([`RequestRecord`]), keeps a log and counters, and applies [`ProxyRule`]s. Rules answer
//! errors, break connections before or after the effect, corrupt bodies, and hold requests at a known point until the
//! test releases them.
//!
//! Bodies stream in both directions; memory does not grow with their size. A request continues when its client leaves,
//! as it would on a real network, and its record shows how the server ended it.
//!
//! The proxy runs on a thread and runtime of its own: tests may pause their clock, block, or use no runtime at all.
//! Tests in other languages start the binary `s3proxy` and speak to [`admin`].

mod admin;
mod body;
mod journal;
mod relay;
mod rules;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::http::uri::Authority;
use hyper::service::service_fn;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

pub use self::journal::{Condition, OperationStats, ProxyStats, RequestRecord, RuleStats};
pub use self::rules::{Action, ProxyRule, RequestSide};

use self::body::RelayError;
use self::journal::Journal;
use self::relay::{ReplyResult, Upstream};
use crate::connection::ClientStream;

/// A running proxy; ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    journal: Arc<Journal>,
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy on a free loopback port.
    ///
    /// # Errors
    /// When `upstream` is not `http://host:port`, or no port or thread is to be had.
    pub fn start(upstream: &str) -> io::Result<Self> {
        Self::listen((Ipv4Addr::LOCALHOST, 0).into(), upstream)
    }

    /// Starts a proxy on an address of choice; port 0 takes a free one.
    ///
    /// # Errors
    /// As [`Proxy::start`].
    pub fn listen(address: SocketAddr, upstream: &str) -> io::Result<Self> {
        let authority = authority_of(upstream)?;
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let journal = Arc::new(Journal::default());
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let served = Arc::clone(&journal);
        let thread = std::thread::Builder::new().name("s3proxy".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let upstream = Arc::new(Upstream::new(authority));
                match tokio::net::TcpListener::from_std(listener) {
                    Ok(listener) => tokio::select! {
                        () = accept(listener, &served, &upstream) => {}
                        _ = stopped => {}
                    },
                    Err(error) => eprintln!("s3proxy: {error}"),
                }
            });
            // Ends every connection immediately, whatever is under way on it.
            runtime.shutdown_background();
        })?;
        Ok(Self { address, journal, stop: Some(stop), thread: Some(thread) })
    }

    /// Address on which the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for clients: `http://127.0.0.1:port`.
    pub fn endpoint_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a rule after those that are there; returns its id.
    ///
    /// # Panics
    /// When the rule could never fire, such as one for a misspelt operation.
    pub fn add_rule(&self, rule: ProxyRule) -> u64 {
        self.journal.add_rule(rule).unwrap_or_else(|problem| panic!("rule refused: {problem}"))
    }

    /// Removes a rule; what it holds continues.
    pub fn remove_rule(&self, id: u64) {
        self.journal.remove_rules(Some(id));
    }

    /// Removes all rules; requests that they hold continue.
    pub fn clear_rules(&self) {
        self.journal.remove_rules(None);
    }

    /// Releases `count` held requests (None: all), of one rule or of all. Returns the number of released requests.
    pub fn release(&self, rule: Option<u64>, count: Option<u64>) -> u64 {
        self.journal.release(rule, count)
    }

    /// All requests that ended, in the order of their ends.
    pub fn log(&self) -> Vec<RequestRecord> {
        self.journal.log(0, usize::MAX)
    }

    /// Requests under way.
    pub fn in_flight(&self) -> Vec<RequestRecord> {
        self.journal.in_flight()
    }

    /// Counters.
    pub fn stats(&self) -> ProxyStats {
        self.journal.stats()
    }

    /// Waits for a condition without blocking the runtime; false when the deadline passed first.
    ///
    /// The deadline is real time, also where the test's clock is paused.
    pub async fn wait(&self, condition: Condition, deadline: Duration) -> bool {
        let (expire, expired) = oneshot::channel::<Infallible>();
        let timer = std::thread::spawn(move || {
            std::thread::park_timeout(deadline);
            drop(expire);
        });
        let met = tokio::select! {
            () = self.journal.wait(&condition) => true,
            _ = expired => self.journal.holds(&condition),
        };
        timer.thread().unpark();
        met
    }

    /// Waits for a condition, blocking the thread; false when the deadline passed first.
    pub fn wait_blocking(&self, condition: &Condition, deadline: Duration) -> bool {
        let until = Instant::now() + deadline;
        while !self.journal.holds(condition) {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    /// Serves until the process ends; for the binary.
    pub fn join(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn authority_of(upstream: &str) -> io::Result<Authority> {
    let invalid =
        |reason: String| io::Error::new(io::ErrorKind::InvalidInput, format!("upstream {upstream}: {reason}"));
    let uri: Uri = upstream.parse().map_err(|error| invalid(format!("{error}")))?;
    if uri.scheme_str() != Some("http") {
        return Err(invalid("must start with http://".to_owned()));
    }
    uri.authority().cloned().ok_or_else(|| invalid("names no host".to_owned()))
}

async fn accept(listener: tokio::net::TcpListener, journal: &Arc<Journal>, upstream: &Arc<Upstream>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(stream, Arc::clone(journal), Arc::clone(upstream)));
            }
            Err(error) => {
                // Out of file descriptors, most likely: some come free as connections end.
                eprintln!("s3proxy: accept: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Serves one client connection to its end.
async fn serve(stream: TcpStream, journal: Arc<Journal>, upstream: Arc<Upstream>) {
    let _ = stream.set_nodelay(true);
    let reset = Arc::new(AtomicBool::new(false));
    let io = TokioIo::new(ClientStream { stream, reset: Arc::clone(&reset) });
    let service = service_fn(move |request: Request<Incoming>| {
        answer(request, Arc::clone(&journal), Arc::clone(&upstream), Arc::clone(&reset))
    });
    // An error here is a connection that broke, by a client or by a rule; the records show both.
    let _ = hyper::server::conn::http1::Builder::new().preserve_header_case(true).serve_connection(io, service).await;
}

async fn answer(
    request: Request<Incoming>,
    journal: Arc<Journal>,
    upstream: Arc<Upstream>,
    reset: Arc<AtomicBool>,
) -> ReplyResult {
    if request.uri().path().starts_with(admin::PREFIX) {
        return Ok(admin::answer(&journal, request).await);
    }
    // On a task of its own: hyper drops this future when the client leaves, but the server continues.
    let (mut client, answered) = oneshot::channel();
    tokio::spawn(async move {
        let answer = relay::relay(&journal, &upstream, &reset, request, &mut client).await;
        if let Err(Ok(reply)) = client.send(answer) {
            reply.into_body().undelivered();
        }
    });
    answered.await.unwrap_or_else(|_| Err(RelayError("the relay failed".to_owned())))
}
