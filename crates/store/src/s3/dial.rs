//! Connections to servers: TCP or TLS, straight or through a proxy, certificates to trust, and large reads from the
//! network.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, LazyLock, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector as Tcp};
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::io::poll_read_buf;
use tower_service::Service;

use super::profile_files::decode_marked;
use super::proxy::Proxy;

type BoxError = Box<dyn Error + Send + Sync>;

/// Time limit of a connection attempt.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of one read from the network: four records of TLS.
const READ_SIZE: usize = 64 << 10;
/// Size from which a read goes straight to the network, since it needs few calls.
const UNBUFFERED_READ_SIZE: usize = 8 << 10;

/// A connection. Boxed, because it is large, in particular with TLS.
pub(super) type Stream = Box<dyn Duplex>;

/// A stream of bytes in both directions.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug> Duplex for S {}

/// Makes connections, with or without TLS as the address says, through its proxy if there is one.
#[derive(Debug)]
pub(super) struct Dialer {
    tcp: Tcp,
    trust: Arc<TrustStore>,
}

impl Dialer {
    pub(super) fn new(trust: Arc<TrustStore>) -> Self {
        let mut tcp = Tcp::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        Self { tcp, trust }
    }

    /// Connects to the server of this address.
    pub(super) async fn connect(&self, to: &Uri, proxy: Option<&Proxy>) -> Result<Stream, BoxError> {
        let dialed = async {
            match proxy {
                None => self.dial(PlainConnector(self.tcp.clone()), to).await,
                Some(proxy) if is_https(to) => {
                    // The proxy passes on what it cannot read.
                    let mut tunnel = Tunnel::new(proxy.address.clone(), self.proxy_connector(proxy)?);
                    if let Some(login) = &proxy.login {
                        tunnel = tunnel.with_auth(HeaderValue::from_str(login)?);
                    }
                    self.dial(tunnel, to).await
                }
                Some(proxy) => connect_stream(self.proxy_connector(proxy)?, &proxy.address).await,
            }
        };
        tokio::time::timeout(CONNECT_TIMEOUT, dialed).await.unwrap_or_else(|_| Err(ConnectTimeout.into()))
    }

    async fn dial<C>(&self, connector: C, to: &Uri) -> Result<Stream, BoxError>
    where
        C: Service<Uri, Error: Into<BoxError>, Future: Send> + Send + 'static,
        C::Response: Connection + Read + Write + Unpin + Send + fmt::Debug + 'static,
    {
        if is_https(to) {
            connect_stream(HttpsConnector::from((connector, self.trust.config()?)), to)
                .await
                .map_err(classify_tls_error)
        } else {
            connect_stream(connector, to).await
        }
    }

    fn proxy_connector(&self, proxy: &Proxy) -> Result<HttpsConnector<PlainConnector>, BoxError> {
        let config = match proxy.address.scheme_str() {
            Some("https") => self.trust.config()?,
            // Certificates are not read where they are not needed.
            Some("http") => tls_config(RootCertStore::empty())?,
            _ => return Err("the proxy of the environment speaks no HTTP".into()),
        };
        Ok(HttpsConnector::from((PlainConnector(self.tcp.clone()), config)))
    }
}

fn is_https(uri: &Uri) -> bool {
    uri.scheme_str() == Some("https")
}

async fn connect_stream<C>(mut connector: C, to: &Uri) -> Result<Stream, BoxError>
where
    C: Service<Uri, Error: Into<BoxError>>,
    C::Response: Read + Write + Unpin + Send + fmt::Debug + 'static,
{
    poll_fn(|cx| connector.poll_ready(cx)).await.map_err(Into::into)?;
    let stream = connector.call(to.clone()).await.map_err(Into::into)?;
    Ok(Box::new(TokioIo::new(stream)))
}

/// Makes connections without TLS.
#[derive(Debug, Clone)]
struct PlainConnector(Tcp);

impl Service<Uri> for PlainConnector {
    type Response = ReadAheadStream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<ReadAheadStream, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = self.0.call(to);
        Box::pin(async move { Ok(ReadAheadStream { stream: connecting.await?, buffered: BytesMut::new() }) })
    }
}

/// A connection that reads [`READ_SIZE`] bytes from the network when fewer are requested, and buffers the rest. It has
/// no buffer while it waits for the network, since there are thousands of connections.
#[derive(Debug)]
pub(super) struct ReadAheadStream {
    stream: TokioIo<TcpStream>,
    buffered: BytesMut,
}

impl Read for ReadAheadStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, mut into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let Self { stream, buffered } = self.get_mut();
        if buffered.is_empty() {
            if into.remaining() >= UNBUFFERED_READ_SIZE {
                return Pin::new(stream).poll_read(cx, into);
            }
            buffered.reserve(READ_SIZE);
            let read = poll_read_buf(Pin::new(stream.inner_mut()), cx, buffered);
            if read.is_pending() {
                *buffered = BytesMut::new();
            }
            ready!(read)?;
        }
        let length = buffered.len().min(into.remaining());
        into.put_slice(&buffered[..length]);
        buffered.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl Write for ReadAheadStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }
}

impl Connection for ReadAheadStream {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

/// Error for a connection that took longer than [`CONNECT_TIMEOUT`].
#[derive(Debug)]
pub(super) struct ConnectTimeout;

impl fmt::Display for ConnectTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no connection within {} s", CONNECT_TIMEOUT.as_secs())
    }
}

impl Error for ConnectTimeout {}

/// Error for a server whose identity cannot be verified.
#[derive(Debug, Clone)]
pub(super) struct UntrustedServer(String);

impl fmt::Display for UntrustedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for UntrustedServer {}

/// Converts an error of a TLS connection: an untrusted certificate becomes [`UntrustedServer`], any other TLS error one
/// line of text.
fn classify_tls_error(error: BoxError) -> BoxError {
    match find_rustls_error(error.as_ref()) {
        Some(rustls @ rustls::Error::InvalidCertificate(_)) => UntrustedServer(rustls.to_string()).into(),
        Some(rustls) => format!("TLS handshake failed: {rustls}").into(),
        None => error,
    }
}

fn find_rustls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // An `io::Error` does not list its inner error among its causes.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(held) => Some(held as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    None
}

/// Certificate authorities to trust: those of the system, and perhaps those of a file.
#[derive(Debug, Default)]
pub(super) struct TrustStore {
    bundle: OnceLock<PathBuf>,
    config: OnceLock<Result<Arc<ClientConfig>, UntrustedServer>>,
}

impl TrustStore {
    /// Adds the authorities of a file (PEM). Other AWS tools then trust no others, but a transfer may have a private
    /// storage at one end and AWS at the other. Must be called before the first request.
    pub(super) fn add_bundle(&self, bundle: String) {
        let _first_one_counts = self.bundle.set(bundle.into());
    }

    /// The TLS settings, made when they are first needed.
    fn config(&self) -> Result<Arc<ClientConfig>, UntrustedServer> {
        self.config.get_or_init(|| self.load()).clone()
    }

    fn load(&self) -> Result<Arc<ClientConfig>, UntrustedServer> {
        let mut roots = RootCertStore { roots: SYSTEM_ROOTS.roots.clone() };
        if let Some(bundle) = self.bundle.get() {
            add_file(&mut roots, bundle).map_err(|why| UntrustedServer(format!("{}: {why}", bundle.display())))?;
        }
        tls_config(roots)
    }
}

fn tls_config(roots: RootCertStore) -> Result<Arc<ClientConfig>, UntrustedServer> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| UntrustedServer(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // HTTP/1.1 has one request at a time per connection, and as many connections as requests: a single connection
    // for all would be limited by its own throughput.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The system's certificates, read once per process and only for TLS: reading them takes longer than a small request.
static SYSTEM_ROOTS: LazyLock<RootCertStore> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    // Some systems have old certificates that cannot be parsed, beside the valid ones.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
});

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let before = roots.len();
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let bytes = decode_marked(&bytes).map_or(bytes, String::into_bytes);
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.len() > before { Ok(()) } else { Err("it holds no certificates".to_owned()) }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use hyper::rt::ReadBuf;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// A connection that reads widely, and its other end.
    async fn connected() -> (ReadAheadStream, TcpStream) {
        let there = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", there.local_addr().unwrap()).parse().unwrap();
        let here = PlainConnector(Tcp::new()).call(address).await.unwrap();
        (here, there.accept().await.unwrap().0)
    }

    async fn read(from: &mut ReadAheadStream, at_most: usize) -> Vec<u8> {
        let mut bytes = vec![0; at_most];
        let mut into = ReadBuf::new(&mut bytes);
        poll_fn(|cx| Pin::new(&mut *from).poll_read(cx, into.unfilled())).await.unwrap();
        into.filled().to_vec()
    }

    #[tokio::test]
    async fn what_is_sent_is_read_in_whatever_pieces() {
        let (mut here, mut there) = connected().await;
        let seed = fastrand::u64(..);
        let mut rng = fastrand::Rng::with_seed(seed);
        let sent: Vec<u8> = (0..1 << 20).map(|_| rng.u8(..)).collect();
        let mut pieces = rng.fork();
        let to_send = sent.clone();
        let sending = tokio::spawn(async move {
            let mut rest = &to_send[..];
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(pieces.usize(1..100_000).min(rest.len()));
                there.write_all(piece).await.unwrap();
                rest = after;
            }
        });

        let mut received = Vec::new();
        loop {
            // Fewer than one read takes, and more.
            let piece = read(&mut here, rng.usize(1..2 * UNBUFFERED_READ_SIZE)).await;
            if piece.is_empty() {
                break;
            }
            received.extend(piece);
        }

        sending.await.unwrap();
        assert!(received == sent, "seed {seed}");
    }

    #[tokio::test]
    async fn who_asks_for_little_is_given_it_out_of_one_large_read() {
        let (mut here, mut there) = connected().await;
        there.write_all(&[7; 10_000]).await.unwrap();
        here.stream.inner_mut().readable().await.unwrap();

        assert_eq!(read(&mut here, 4096).await, [7; 4096]);
        assert_eq!(here.buffered.len(), 10_000 - 4096);
    }

    #[tokio::test]
    async fn who_waits_keeps_no_memory() {
        let (mut here, mut there) = connected().await;
        there.write_all(b"answer").await.unwrap();
        assert_eq!(read(&mut here, 4096).await, b"answer");

        let mut bytes = [0; 4096];
        let mut into = ReadBuf::new(&mut bytes);
        let waits = poll_fn(|cx| Poll::Ready(Pin::new(&mut here).poll_read(cx, into.unfilled()).is_pending())).await;

        assert!(waits);
        assert_eq!(here.buffered.capacity(), 0);
    }
}
