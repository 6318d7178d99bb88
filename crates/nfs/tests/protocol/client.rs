//! Clients: the typed one, and one that sends what it likes and many calls at a time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nfs3_client::tokio::TokioIo;
use nfs3_client::{MountClient, Nfs3Client};
use nfs3_types::mount::dirpath;
use nfs3_types::nfs3::{LOOKUP3args, Nfs3Result, PROGRAM, VERSION, diropargs3, filename3, nfs_fh3, nfsstat3};
use nfs3_types::rpc::{auth_unix, call_body, fragment_header, msg_body, opaque_auth, rpc_msg};
use nfs3_types::xdr_codec::{Opaque, Pack};
use seqferry_nfs::{Export, ExportSpec, HandleKey, Server, ServerLimits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::tree::MemoryShare;

pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
pub(crate) const KEY: [u8; 32] = [42; 32];

pub(crate) type Nfs = Nfs3Client<TokioIo<TcpStream>>;

/// A server that ends with this value.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    _stop: DropGuard,
}

pub(crate) async fn serve_exports(exports: Vec<Export>, limits: ServerLimits) -> Running {
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(address, HandleKey::new(KEY), exports, limits).await.unwrap();
    let (address, stop) = (server.address(), CancellationToken::new());
    tokio::spawn(server.serve(stop.clone()));
    Running { address, _stop: stop.drop_guard() }
}

/// Serve one share as `/share`.
pub(crate) async fn serve(share: &Arc<MemoryShare>) -> Running {
    let export = Export::new(ExportSpec::new("share"), Arc::clone(share) as _).unwrap();
    serve_exports(vec![export], ServerLimits::default()).await
}

pub(crate) fn user(uid: u32, gid: u32, gids: &[u32]) -> opaque_auth<'static> {
    let machinename = Opaque::owned(b"client".to_vec());
    opaque_auth::auth_unix(&auth_unix { stamp: 7, machinename, uid, gid, gids: gids.to_vec() })
}

pub(crate) async fn connect(address: SocketAddr) -> Nfs {
    connect_as(address, user(1000, 1000, &[])).await
}

pub(crate) async fn connect_as(address: SocketAddr, credentials: opaque_auth<'static>) -> Nfs {
    let stream = TcpStream::connect(address).await.unwrap();
    Nfs3Client::new_with_auth(TokioIo::new(stream), credentials, opaque_auth::default())
}

pub(crate) async fn mounter(address: SocketAddr) -> MountClient<TokioIo<TcpStream>> {
    let stream = TcpStream::connect(address).await.unwrap();
    MountClient::new_with_auth(TokioIo::new(stream), user(1000, 1000, &[]), opaque_auth::default())
}

pub(crate) fn path(path: &str) -> dirpath<'_> {
    dirpath(Opaque::borrowed(path.as_bytes()))
}

/// The handle of the root of `/share`.
pub(crate) async fn root(address: SocketAddr) -> nfs_fh3 {
    let mounted = mounter(address).await.mnt(path("/share")).await.unwrap();
    nfs_fh3 { data: Opaque::owned(mounted.fhandle.0.to_vec()) }
}

pub(crate) fn place<'a>(directory: &nfs_fh3, name: &'a str) -> diropargs3<'a> {
    diropargs3 { dir: directory.clone(), name: filename3(Opaque::borrowed(name.as_bytes())) }
}

/// The handle of a name in a directory.
pub(crate) async fn find(client: &mut Nfs, directory: &nfs_fh3, name: &str) -> nfs_fh3 {
    client.lookup(&LOOKUP3args { what: place(directory, name) }).await.unwrap().unwrap().object
}

/// The status of a result.
pub(crate) fn status<T, E>(result: &Nfs3Result<T, E>) -> nfsstat3 {
    match result {
        Nfs3Result::Ok(_) => nfsstat3::NFS3_OK,
        Nfs3Result::Err((status, _)) => *status,
    }
}

/// The record of a call of a user.
pub(crate) fn call(xid: u32, procedure: u32, arguments: &impl Pack) -> Vec<u8> {
    call_of(xid, (PROGRAM, VERSION, procedure), 2, user(1000, 1000, &[]), arguments)
}

pub(crate) fn call_of(
    xid: u32,
    target: (u32, u32, u32),
    rpcvers: u32,
    cred: opaque_auth<'_>,
    arguments: &impl Pack,
) -> Vec<u8> {
    let body =
        call_body { rpcvers, prog: target.0, vers: target.1, proc: target.2, cred, verf: opaque_auth::default() };
    let message = rpc_msg { xid, body: msg_body::CALL(body) };
    let mut record = vec![0; 4];
    message.pack(&mut record).unwrap();
    arguments.pack(&mut record).unwrap();
    let mark = fragment_header::new(u32::try_from(record.len() - 4).unwrap(), true);
    record[..4].copy_from_slice(&mark.into_xdr_buf());
    record
}

/// A connection that sends records as they are.
pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    /// A connection of another host: 127.0.0.0/8 has many.
    pub(crate) async fn connect_from(host: u8, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, host], 0).into()).unwrap();
        Self(socket.connect(address).await.unwrap())
    }

    pub(crate) async fn send(&mut self, record: &[u8]) {
        self.0.write_all(record).await.unwrap();
    }

    /// The next record. None: the server has closed the connection.
    pub(crate) async fn receive(&mut self) -> Option<Vec<u8>> {
        let mut mark = [0; 4];
        let reading = async {
            self.0.read_exact(&mut mark).await.ok()?;
            let mut record = vec![0; fragment_header::from(mark).fragment_length() as usize];
            self.0.read_exact(&mut record).await.ok()?;
            Some(record)
        };
        tokio::time::timeout(DEADLINE, reading).await.expect("no reply came")
    }
}

/// Words of a record, as numbers.
pub(crate) fn words(record: &[u8]) -> Vec<u32> {
    record.chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect()
}

/// Wait until something holds.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.expect("it did not come to be");
}
