//! The port mapper and MOUNT over UDP.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use nfs3_types::mount::dirpath;
use nfs3_types::portmap::{PROGRAM as PORT_MAP, mapping};
use nfs3_types::rpc::opaque_auth;
use nfs3_types::xdr_codec::{Opaque, Pack, Void, XdrCodec};
use nfs3_types::{mount, nfs3};
use seqferry_nfs::{ClientList, Export, ExportSpec, HandleKey, PortMapping, Published, Server, ServerLimits};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, UdpSocket, UnixListener};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::client::{DEADLINE, KEY, Raw, call_of, mounter, path, root, until, user, words};
use crate::tree::MemoryShare;

const TCP: u32 = 6;
const UDP: u32 = 17;
/// Status of a reply that was accepted.
const SUCCESS: u32 = 0;
const PROG_UNAVAIL: u32 = 1;
const PROG_MISMATCH: u32 = 2;
const PROC_UNAVAIL: u32 = 3;
const GARBAGE_ARGS: u32 = 4;

fn export_for(clients: &[&str], share: &Arc<MemoryShare>) -> Export {
    let clients = ClientList::parse(clients).unwrap();
    Export::new(ExportSpec { clients, ..ExportSpec::new("share") }, Arc::clone(share) as _).unwrap()
}

async fn bound(clients: &[&str]) -> Server {
    let exports = vec![export_for(clients, &MemoryShare::new(true))];
    let address = "127.0.0.1:0".parse().unwrap();
    Server::bind(address, HandleKey::new(KEY), exports, ServerLimits::default()).await.unwrap()
}

/// A port that is free for both transports.
async fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        if UdpSocket::bind(address).await.is_ok() {
            return address.port();
        }
    }
}

/// A server whose port mapper is at the second address.
async fn published(clients: &[&str]) -> (SocketAddr, SocketAddr, DropGuard) {
    // Another test may take the port meanwhile.
    loop {
        let mut server = bound(clients).await;
        let mapping = PortMapping { port: free_port().await, rpcbind: "/nonexistent".into() };
        if server.publish(&mapping).await.ok() == Some(Published::Itself) {
            let (address, stop) = (server.address(), CancellationToken::new());
            tokio::spawn(server.serve(stop.clone()));
            return (address, SocketAddr::new(address.ip(), mapping.port), stop.drop_guard());
        }
    }
}

fn record(target: (u32, u32, u32), arguments: &impl Pack) -> Vec<u8> {
    call_of(7, target, 2, user(1000, 1000, &[]), arguments)
}

/// Status and result of a reply that was accepted.
fn result(reply: &[u8]) -> (u32, Vec<u32>) {
    let words = words(reply);
    let [xid, kind, accepted, _flavor, length, status, ..] = words[..] else { panic!("no reply: {words:?}") };
    assert_eq!((xid, kind, accepted, length), (7, 1, 0, 0));
    (status, words[6..].to_vec())
}

async fn over_tcp(address: SocketAddr, target: (u32, u32, u32), arguments: &impl Pack) -> (u32, Vec<u32>) {
    let mut connection = Raw::connect(address).await;
    connection.send(&record(target, arguments)).await;
    result(&connection.receive().await.unwrap())
}

async fn over_udp(address: SocketAddr, target: (u32, u32, u32), arguments: &impl Pack) -> (u32, Vec<u32>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(&record(target, arguments)[4..], address).await.unwrap();
    let mut reply = [0; 4096];
    let (length, from) = tokio::time::timeout(DEADLINE, socket.recv_from(&mut reply)).await.unwrap().unwrap();
    assert_eq!(from, address);
    result(&reply[..length])
}

fn wanted(program: u32, version: u32, protocol: u32) -> mapping {
    mapping { prog: program, vers: version, prot: protocol, port: 0 }
}

/// Arguments of versions 3 and 4.
#[derive(XdrCodec)]
struct AddressQuery {
    program: u32,
    version: u32,
    net_id: Opaque<'static>,
    address: Opaque<'static>,
    owner: Opaque<'static>,
}

fn address_of(program: u32, version: u32, net_id: &'static str) -> AddressQuery {
    let empty = || Opaque::borrowed(b"");
    AddressQuery { program, version, net_id: Opaque::borrowed(net_id.as_bytes()), address: empty(), owner: empty() }
}

fn text(result: &[u32]) -> String {
    let bytes: Vec<u8> = result[1..].iter().flat_map(|word| word.to_be_bytes()).take(result[0] as usize).collect();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn each_version_over_both_transports_names_the_port_of_nfs_and_mount() {
    let (nfs, port_map, _stop) = published(&["127.0.0.0/8"]).await;
    let port = u32::from(nfs.port());
    for (program, version, protocol, expected) in [
        (nfs3::PROGRAM, 3, TCP, port),
        (nfs3::PROGRAM, 4, TCP, port),
        (nfs3::PROGRAM, 3, UDP, 0),
        (mount::PROGRAM, 3, TCP, port),
        (mount::PROGRAM, 3, UDP, port),
        (mount::PROGRAM, 1, UDP, port),
        (100_021, 4, TCP, 0),
    ] {
        let arguments = wanted(program, version, protocol);
        let called = (PORT_MAP, 2, 3);
        assert_eq!(over_tcp(port_map, called, &arguments).await, (SUCCESS, vec![expected]), "{arguments:?}");
        assert_eq!(over_udp(port_map, called, &arguments).await, (SUCCESS, vec![expected]), "{arguments:?}");
    }
    let address = format!("127.0.0.1.{}.{}", port >> 8, port & 0xff);
    for (version, procedure, program, of_program, net_id, expected) in [
        (3, 3, nfs3::PROGRAM, 3, "tcp", address.as_str()),
        (4, 3, mount::PROGRAM, 3, "udp", &address),
        (4, 3, nfs3::PROGRAM, 4, "tcp", &address),
        (4, 9, nfs3::PROGRAM, 4, "tcp", ""),
        (4, 9, nfs3::PROGRAM, 3, "tcp", &address),
        (3, 3, nfs3::PROGRAM, 3, "tcp6", ""),
        (3, 3, 100_021, 4, "tcp", ""),
    ] {
        let (called, arguments) = ((PORT_MAP, version, procedure), address_of(program, of_program, net_id));
        for (status, found) in
            [over_tcp(port_map, called, &arguments).await, over_udp(port_map, called, &arguments).await]
        {
            assert_eq!((status, text(&found).as_str()), (SUCCESS, expected), "{called:?} {program} {net_id}");
        }
    }
}

#[tokio::test]
async fn lists_are_given_over_tcp_only_and_nobody_registers_or_calls_others_through_it() {
    let (nfs, port_map, _stop) = published(&["127.0.0.0/8"]).await;
    for (version, entry_words) in [(2, 5), (3, 3), (4, 3)] {
        let called = (PORT_MAP, version, 4);
        let (status, list) = over_tcp(port_map, called, &Void).await;
        assert_eq!(status, SUCCESS);
        assert!(list.windows(entry_words).any(|entry| entry[..3] == [1, nfs3::PROGRAM, 3]), "{version}: {list:?}");
        assert_eq!(over_udp(port_map, called, &Void).await.0, PROC_UNAVAIL);
    }
    for procedure in [1, 2] {
        let entry = mapping { port: 4242, ..wanted(nfs3::PROGRAM, 3, TCP) };
        assert_eq!(over_udp(port_map, (PORT_MAP, 2, procedure), &entry).await, (SUCCESS, vec![0]));
        assert_eq!(over_tcp(port_map, (PORT_MAP, 4, procedure), &Void).await, (SUCCESS, vec![0]));
    }
    let port = u32::from(nfs.port());
    assert_eq!(over_udp(port_map, (PORT_MAP, 2, 3), &wanted(nfs3::PROGRAM, 3, TCP)).await, (SUCCESS, vec![port]));
    for called in [(PORT_MAP, 2, 5), (PORT_MAP, 3, 5), (PORT_MAP, 4, 10), (PORT_MAP, 4, 12), (PORT_MAP, 2, 99)] {
        assert_eq!(over_udp(port_map, called, &Void).await.0, PROC_UNAVAIL, "{called:?}");
        assert_eq!(over_tcp(port_map, called, &Void).await.0, PROC_UNAVAIL, "{called:?}");
    }
    assert_eq!(over_udp(port_map, (PORT_MAP, 5, 0), &Void).await, (PROG_MISMATCH, vec![2, 4]));
    assert_eq!(over_udp(port_map, (PORT_MAP, 2, 3), &Void).await.0, GARBAGE_ARGS);
    assert_eq!(over_tcp(port_map, (PORT_MAP, 3, 3), &wanted(1, 1, u32::MAX)).await.0, GARBAGE_ARGS);
}

#[tokio::test]
async fn a_share_is_mounted_over_udp_and_its_files_are_served_over_tcp_alone() {
    let (address, _port_map, _stop) = published(&["127.0.0.0/8"]).await;
    let (status, mounted) = over_udp(address, (mount::PROGRAM, 3, 1), &dirpath(Opaque::borrowed(b"/share"))).await;
    assert_eq!((status, mounted[0]), (SUCCESS, 0));
    let handle: Vec<u8> = mounted[2..].iter().flat_map(|word| word.to_be_bytes()).take(mounted[1] as usize).collect();
    assert_eq!(root(address).await.data.0.to_vec(), handle);
    assert_eq!(over_udp(address, (mount::PROGRAM, 3, 3), &dirpath(Opaque::borrowed(b"/share"))).await.0, SUCCESS);
    for procedure in [2, 5] {
        assert_eq!(over_udp(address, (mount::PROGRAM, 3, procedure), &Void).await.0, PROC_UNAVAIL);
    }
    assert_eq!(over_udp(address, (nfs3::PROGRAM, 3, 0), &Void).await.0, PROG_UNAVAIL);
    assert_eq!(over_udp(address, (mount::PROGRAM, 1, 0), &Void).await, (PROG_MISMATCH, vec![3, 3]));
}

#[tokio::test]
async fn datagrams_of_others_and_those_that_are_no_call_get_no_reply() {
    let (address, port_map, _stop) = published(&["127.0.0.2"]).await;
    let stranger = UdpSocket::bind("127.0.0.3:0").await.unwrap();
    let client = UdpSocket::bind("127.0.0.2:0").await.unwrap();
    for at in [address, port_map] {
        let target = if at == address { (mount::PROGRAM, 3, 0) } else { (PORT_MAP, 2, 0) };
        let call = record(target, &Void);
        stranger.send_to(&call[4..], at).await.unwrap();
        for nothing in [&b""[..], b"abc", &[0; 5000], &[1, 2, 3, 4, 0, 0, 0, 1]] {
            client.send_to(nothing, at).await.unwrap();
        }
        client.send_to(&call[4..], at).await.unwrap();
        let mut reply = [0; 4096];
        let (length, _) = tokio::time::timeout(DEADLINE, client.recv_from(&mut reply)).await.unwrap().unwrap();
        assert_eq!(result(&reply[..length]).0, SUCCESS);
        assert!(client.try_recv_from(&mut reply).is_err(), "one reply");
        assert!(stranger.try_recv_from(&mut reply).is_err(), "none for a stranger");
    }
    let damaged = call_of(7, (PORT_MAP, 2, 0), 3, opaque_auth::default(), &Void);
    client.send_to(&damaged[4..], port_map).await.unwrap();
    let mut reply = [0; 4096];
    let (length, _) = tokio::time::timeout(DEADLINE, client.recv_from(&mut reply)).await.unwrap().unwrap();
    assert_eq!(words(&reply[..length])[..3], [7, 1, 1], "another version of calls is denied");
}

#[tokio::test]
async fn without_a_port_mapper_shares_are_served_and_the_error_has_the_options_of_the_mount() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut server = bound(&["127.0.0.0/8"]).await;
    let mapping = PortMapping { port: taken.local_addr().unwrap().port(), rpcbind: "/nonexistent".into() };
    let refused = server.publish(&mapping).await.unwrap_err().to_string();
    let port = server.address().port();
    assert!(refused.ends_with(&format!("port={port},mountport={port},mountproto=tcp")), "{refused}");
    assert!(refused.contains("Address already in use"), "{refused}");
    let (address, stop) = (server.address(), CancellationToken::new());
    let _serving = (tokio::spawn(server.serve(stop.clone())), stop.drop_guard());
    mounter(address).await.mnt(path("/share")).await.unwrap();
    assert_eq!(over_tcp(address, (PORT_MAP, 2, 0), &Void).await.0, PROG_UNAVAIL);
}

/// A program at the socket of rpcbind that answers each call with these bytes.
fn pretender(answer: &'static [u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("rpcbind-{}.sock", fastrand::u64(..)));
    let listener = UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _written = stream.write_all(answer).await;
        }
    });
    path
}

#[tokio::test]
async fn a_program_that_answers_nonsense_in_place_of_rpcbind_is_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for answer in [&b""[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", &[0x80, 0, 0, 4, 0, 0, 0, 1], &[0xff; 64]] {
        let mut server = bound(&["127.0.0.0/8"]).await;
        let mapping = PortMapping { port: taken.local_addr().unwrap().port(), rpcbind: pretender(answer) };
        let refused = server.publish(&mapping).await.unwrap_err().to_string();
        std::fs::remove_file(mapping.rpcbind).unwrap();
        assert!(refused.contains("rpcbind does not answer") && !refused.contains('\n'), "{answer:?}: {refused}");
    }
}

#[tokio::test]
async fn the_port_mapper_ends_with_the_server() {
    let (_nfs, port_map, stop) = published(&["127.0.0.0/8"]).await;
    drop(stop);
    until(|| std::net::UdpSocket::bind(port_map).is_ok() && std::net::TcpListener::bind(port_map).is_ok()).await;
}
