//! Registration with the rpcbind of this machine, which answers at the port of the port mapper then.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use nfs3_types::portmap;
use nfs3_types::rpc::{RPC_VERSION_2, call_body, fragment_header, msg_body, opaque_auth, rpc_msg};
use nfs3_types::xdr_codec::{Pack, Void};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::port_map::{AddressEntry, Service, families, services, universal_address};
use crate::record::RecordReader;
use crate::reply::packed;
use crate::xdr::{Decoder, Malformed};

/// Time for one call: rpcbind is on this machine.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Longest reply: some thousand entries.
const MAX_REPLY: usize = 256 << 10;
const MAX_TEXT: usize = 1024;
const VERSION: u32 = 4;
const SET: u32 = 1;
const UNSET: u32 = 2;
const DUMP: u32 = 4;

/// Reason why programs could not be registered.
#[derive(Debug)]
pub(crate) enum RpcbindError {
    /// It cannot be reached, or does not answer as it should.
    Io(io::Error),
    /// It refuses an entry.
    Refused(&'static str),
    /// Another server has registered the program.
    Taken { program: &'static str, address: String },
}

impl fmt::Display for RpcbindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "rpcbind does not answer: {error}"),
            Self::Refused(program) => write!(f, "rpcbind does not let this user register {program}"),
            Self::Taken { program, address } => {
                write!(f, "another server has registered {program} with rpcbind, at {address}: stop it")
            }
        }
    }
}

impl From<io::Error> for RpcbindError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Entries that this process has made. They stay when it is killed; the next start takes them over.
#[derive(Debug)]
pub(crate) struct Registration {
    socket: PathBuf,
    entries: Vec<(Service, bool, String)>,
}

impl Registration {
    /// Register the programs of a server at this address.
    pub(crate) async fn make(socket: &Path, address: SocketAddr) -> Result<Self, RpcbindError> {
        let mut made = Self { socket: socket.to_owned(), entries: Vec::new() };
        let wanted = families(address.ip()).iter().flat_map(|family| {
            services(address.port())
                .map(|service| (service, *family, universal_address(host(address.ip(), *family), service.port)))
        });
        for (service, family, text) in wanted {
            if let Err(error) = made.register(service, family, &text).await {
                made.end().await;
                return Err(error);
            }
            made.entries.push((service, family, text));
        }
        Ok(made)
    }

    async fn register(&self, service: Service, is_ipv4: bool, address: &str) -> Result<(), RpcbindError> {
        if self.change(SET, service, is_ipv4, address).await? {
            return Ok(());
        }
        let name = if service.program == nfs3_types::nfs3::PROGRAM { "NFS" } else { "MOUNT" };
        let known = self.address_of(service, is_ipv4).await?.ok_or(RpcbindError::Refused(name))?;
        // A process that was killed leaves its entries.
        if is_served(&known).await {
            return Err(RpcbindError::Taken { program: name, address: known });
        }
        self.change(UNSET, service, is_ipv4, &known).await?;
        if self.change(SET, service, is_ipv4, address).await? { Ok(()) } else { Err(RpcbindError::Refused(name)) }
    }

    /// Remove the entries that are still those of this process.
    pub(crate) async fn end(self) {
        for (service, is_ipv4, address) in &self.entries {
            let removed = async {
                if self.address_of(*service, *is_ipv4).await?.as_deref() == Some(address) {
                    self.change(UNSET, *service, *is_ipv4, address).await?;
                }
                Ok::<_, io::Error>(())
            };
            if let Err(error) = removed.await {
                tracing::warn!("an entry stays with rpcbind: {error}");
                return;
            }
        }
    }

    async fn change(&self, procedure: u32, service: Service, is_ipv4: bool, address: &str) -> io::Result<bool> {
        let entry = AddressEntry::new(service, is_ipv4, address);
        self.call(procedure, &entry).await?.boolean().map_err(malformed)
    }

    /// The registered address of a service. None: it is not registered. An address that is requested directly is one
    /// for the transport of the question, and changed for who asks: so all are read.
    async fn address_of(&self, service: Service, is_ipv4: bool) -> io::Result<Option<String>> {
        let mut list = self.call(DUMP, &Void).await?;
        let net_id = service.transport.net_id(is_ipv4).as_bytes();
        while list.boolean().map_err(malformed)? {
            let numbers = (list.number().map_err(malformed)?, list.number().map_err(malformed)?);
            let mut text = || list.opaque(MAX_TEXT).map_err(malformed);
            let (of_net, address, _owner) = (text()?, text()?, text()?);
            if numbers == (service.program, service.version) && of_net == net_id {
                return Ok(Some(String::from_utf8_lossy(&address).into_owned()));
            }
        }
        Ok(None)
    }

    /// Call a procedure; returns its result.
    async fn call(&self, procedure: u32, arguments: &impl Pack) -> io::Result<Decoder> {
        timeout(TIME_LIMIT, call(&self.socket, procedure, arguments)).await?
    }
}

async fn call(socket: &Path, procedure: u32, arguments: &impl Pack) -> io::Result<Decoder> {
    let mut stream = UnixStream::connect(socket).await?;
    let body = call_body {
        rpcvers: RPC_VERSION_2,
        prog: portmap::PROGRAM,
        vers: VERSION,
        proc: procedure,
        cred: opaque_auth::default(),
        verf: opaque_auth::default(),
    };
    let mut message = packed(&rpc_msg { xid: 1, body: msg_body::CALL(body) });
    message.extend(packed(arguments));
    let mark = fragment_header::new(u32::try_from(message.len()).map_err(malformed)?, true);
    stream.write_all(&mark.into_xdr_buf()).await?;
    stream.write_all(&message).await?;
    let mut reader = RecordReader::new(stream, MAX_REPLY);
    let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let start = reader.start().await.map_err(malformed)?.ok_or_else(ended)?;
    let record = reader.finish(start).await.map_err(malformed)?;
    result_of(record).ok_or(Malformed).map_err(malformed)
}

/// The result in a reply that was accepted.
fn result_of(record: Bytes) -> Option<Decoder> {
    let mut reply = Decoder::new(record);
    let (_xid, kind, accepted) = (reply.number().ok()?, reply.number().ok()?, reply.number().ok()?);
    let _verifier = (reply.number().ok()?, reply.opaque(MAX_REPLY).ok()?);
    let status = reply.number().ok()?;
    ((kind, accepted, status) == (1, 0, 0)).then_some(reply)
}

fn malformed(_: impl std::fmt::Debug) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its reply is none")
}

/// The address of a server for one kind of addresses.
const fn host(address: IpAddr, is_ipv4: bool) -> IpAddr {
    match address {
        IpAddr::V6(address) if address.is_unspecified() && is_ipv4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        other => other,
    }
}

/// True unless nothing listens there: then the process that registered it has ended.
async fn is_served(universal: &str) -> bool {
    let Some(address) = parse_universal(universal) else { return true };
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    };
    let connected = timeout(TIME_LIMIT, TcpStream::connect(SocketAddr::new(ip, address.port()))).await;
    !matches!(connected, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
}

fn parse_universal(text: &str) -> Option<SocketAddr> {
    let (rest, low) = text.rsplit_once('.')?;
    let (host, high) = rest.rsplit_once('.')?;
    let port = u16::from(high.parse::<u8>().ok()?) << 8 | u16::from(low.parse::<u8>().ok()?);
    Some(SocketAddr::new(host.parse().ok()?, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_are_read_back() {
        for address in ["10.1.2.3:2049", "0.0.0.0:111", "[fd00::7]:65535"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(parse_universal(&universal_address(address.ip(), address.port())), Some(address));
        }
        for text in ["", "10.1.2.3", "1.2", "10.1.2.3.8.256", "host.8.1"] {
            assert_eq!(parse_universal(text), None, "{text}");
        }
    }
}
