//! Many calls, slow shares, and clients that do not take their replies.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use std::time::Duration;

use nfs3_types::nfs3::{READ3args, WRITE3args, nfs_fh3, stable_how};
use nfs3_types::rpc::fragment_header;
use nfs3_types::xdr_codec::{Opaque, Void};
use seqferry_nfs::{Export, ExportSpec, ServerLimits};
use tokio::sync::Semaphore;

use crate::client::{Raw, call, connect, find, root, serve, serve_exports, until, words};
use crate::tree::MemoryShare;

const READ: u32 = 6;
const WRITE: u32 = 7;

#[tokio::test]
async fn two_thousand_calls_to_a_slow_share_are_all_answered_and_few_run_at_a_time() {
    let share = MemoryShare::new(true);
    share.add_file("file", &[7; 64]);
    share.reads.forget_permits(Semaphore::MAX_PERMITS);
    let server = serve(&share).await;
    let top = root(server.address).await;
    let file = find(&mut connect(server.address).await, &top, "file").await;
    let (mut reading, mut writing) = Raw::connect(server.address).await.0.into_split();
    let sending = tokio::spawn(async move {
        for xid in 0..2_000 {
            let record = call(xid, READ, &READ3args { file: file.clone(), offset: 0, count: 4096 });
            tokio::io::AsyncWriteExt::write_all(&mut writing, &record).await.unwrap();
        }
        writing
    });
    until(|| share.running.load(Ordering::SeqCst) == 64).await;
    share.reads.add_permits(8);
    let mut answered = HashSet::new();
    let mut buffer = [0; 4];
    while answered.len() < 2_000 {
        let record = async {
            tokio::io::AsyncReadExt::read_exact(&mut reading, &mut buffer).await.unwrap();
            let length = u32::from_be_bytes(buffer) & 0x7FFF_FFFF;
            let mut record = vec![0; length as usize];
            tokio::io::AsyncReadExt::read_exact(&mut reading, &mut record).await.unwrap();
            record
        };
        let record = tokio::time::timeout(crate::client::DEADLINE, record).await.expect("a reply");
        let words = words(&record);
        assert_eq!((words[1], words[2], words[5], words[6]), (1, 0, 0, 0), "a reply without any error");
        assert!(answered.insert(words[0]), "each call is answered once");
    }
    drop(sending.await.unwrap());
    assert_eq!(share.most_running.load(Ordering::SeqCst), 64);
}

#[tokio::test]
async fn calls_of_little_memory_all_end() {
    let share = MemoryShare::new(false);
    share.add_file("file", &vec![3; 1 << 20]);
    let export = Export::new(ExportSpec::new("share"), Arc::clone(&share) as _).unwrap();
    // Space for two calls of the largest size in all: those that wait hold nothing that the others need.
    let limits = ServerLimits { connection_memory: 1, memory: 2200 << 10, ..ServerLimits::default() };
    let server = serve_exports(vec![export], limits).await;
    let top = root(server.address).await;
    let file = find(&mut connect(server.address).await, &top, "file").await;
    let clients = (0..8_u32).map(|client| {
        let (address, file) = (server.address, file.clone());
        tokio::spawn(async move {
            let mut connection = Raw::connect(address).await;
            for at in 0..6 {
                let xid = 100 * client + at;
                let data = Opaque::owned(vec![3; 1 << 20]);
                let write =
                    WRITE3args { file: file.clone(), offset: 0, count: 1 << 20, stable: stable_how::UNSTABLE, data };
                let read = READ3args { file: file.clone(), offset: 0, count: 1 << 20 };
                let record = if at % 2 == 0 { call(xid, WRITE, &write) } else { call(xid, READ, &read) };
                connection.send(&record).await;
                let reply = connection.receive().await.unwrap();
                assert_eq!((words(&reply[..28])[0], words(&reply[..28])[6]), (xid, 0));
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
}

#[tokio::test]
async fn a_client_that_takes_no_replies_holds_up_itself_alone() {
    let share = MemoryShare::new(true);
    share.add_file("file", &vec![3; 1 << 20]);
    let server = serve(&share).await;
    let top = root(server.address).await;
    let file = find(&mut connect(server.address).await, &top, "file").await;
    let mut deaf = Raw::connect(server.address).await;
    for xid in 0..400 {
        deaf.send(&call(xid, READ, &READ3args { file: file.clone(), offset: 0, count: 1 << 20 })).await;
    }
    let mut other = connect(server.address).await;
    let read = other.read(&READ3args { file, offset: 0, count: 1 << 20 }).await.unwrap().unwrap();
    assert_eq!(read.data.len(), 1 << 20);
    let begun = share.callers.lock().unwrap().len();
    assert!(begun < 200, "{begun} reads of the client that takes nothing were run");
}

/// A share with a file of a megabyte, and the handle of it.
async fn megabyte(limits: ServerLimits) -> (crate::client::Running, Arc<MemoryShare>, nfs_fh3) {
    let share = MemoryShare::new(true);
    share.add_file("file", &vec![3; 1 << 20]);
    let export = Export::new(ExportSpec::new("share"), Arc::clone(&share) as _).unwrap();
    let server = serve_exports(vec![export], limits).await;
    let top = root(server.address).await;
    let file = find(&mut connect(server.address).await, &top, "file").await;
    (server, share, file)
}

fn read_all(xid: u32, file: &nfs_fh3) -> Vec<u8> {
    call(xid, READ, &READ3args { file: file.clone(), offset: 0, count: 1 << 20 })
}

/// Bytes that a connection sends, by the handle of a file.
type Sent = Box<dyn Fn(&nfs_fh3) -> Vec<u8>>;

/// Each is a host that takes all that it can have. Another host is served meanwhile.
#[tokio::test]
async fn one_host_does_not_keep_others_out() {
    let begun = fragment_header::new(1 << 20, true).into_xdr_buf().to_vec();
    let whole = call(1, 0, &Void);
    let kinds: [(&str, usize, Sent); 5] = [
        ("idle connections", 300, Box::new(|_| Vec::new())),
        ("marks of records that do not come", 260, Box::new(move |_| begun.clone())),
        ("parts of a mark", 300, Box::new(|_| vec![0x80])),
        ("parts of a record", 300, Box::new(move |_| whole[..20].to_vec())),
        (
            "replies that are not read",
            40,
            Box::new(|file| (0..400).flat_map(|xid| read_all(xid, file)).collect::<Vec<u8>>()),
        ),
    ];
    for (kind, count, sent) in kinds {
        // The process of the test may open 1,024 files.
        let (server, _share, file) = megabyte(ServerLimits { connections: 200, ..ServerLimits::default() }).await;
        let sent = sent(&file);
        let mut held = Vec::new();
        for _ in 0..count {
            let mut connection = Raw::connect_from(1, server.address).await;
            // Those beyond the limit are closed.
            let _closed = tokio::io::AsyncWriteExt::write_all(&mut connection.0, &sent).await;
            held.push(connection);
        }
        for host in 2..5 {
            let mut other = Raw::connect_from(host, server.address).await;
            other.send(&read_all(7, &file)).await;
            let reply = other.receive().await.unwrap_or_else(|| panic!("{kind}: the connection is closed"));
            assert!(reply.len() > 1 << 20, "{kind}");
        }
    }
}

#[tokio::test]
async fn two_hundred_hosts_are_served_beside_one_that_takes_all_it_can() {
    const FLOOD: u8 = 1;
    let share = MemoryShare::new(true);
    for number in 0..10 {
        share.add_file(&format!("f{number}"), &[number; 64]);
    }
    share.reads.forget_permits(Semaphore::MAX_PERMITS);
    let server = serve(&share).await;
    let top = root(server.address).await;
    let mut files = Vec::new();
    for number in 0..10 {
        files.push(find(&mut connect(server.address).await, &top, &format!("f{number}")).await);
    }
    let read = |xid: u32, file: &nfs_fh3| call(xid, READ, &READ3args { file: file.clone(), offset: 0, count: 4096 });
    let mut flood = Vec::new();
    for _ in 0..16 {
        let mut connection = Raw::connect_from(FLOOD, server.address).await;
        for xid in 0..200 {
            connection.send(&read(xid, &files[0])).await;
        }
        flood.push(connection);
    }
    let most = seqferry_nfs::ServerLimits::default().host_calls;
    until(|| share.running.load(Ordering::SeqCst) == most).await;
    let mut hosts = Vec::new();
    for host in 2..202 {
        let mut connection = Raw::connect_from(host, server.address).await;
        for (xid, file) in (0..).zip(&files) {
            connection.send(&read(xid, file)).await;
        }
        hosts.push(connection);
    }
    until(|| share.running.load(Ordering::SeqCst) == most + 2000).await;

    // As many as run: what the one sends meanwhile comes after them.
    share.reads.add_permits(most + 2000);
    for connection in &mut hosts {
        let mut answered = HashSet::new();
        for _ in &files {
            answered.insert(words(&connection.receive().await.unwrap())[0]);
        }
        assert_eq!(answered.len(), files.len());
    }
    assert_eq!(share.most_running.load(Ordering::SeqCst), most + 2000);
}

#[tokio::test]
async fn a_host_that_has_its_most_connections_goes_on_with_new_ones() {
    let (server, _share, file) = megabyte(ServerLimits { host_connections: 3, ..ServerLimits::default() }).await;
    let mut held = Vec::new();
    for xid in 0..20 {
        let mut connection = Raw::connect(server.address).await;
        connection.send(&read_all(xid, &file)).await;
        assert!(connection.receive().await.is_some(), "connection {xid}");
        held.push(connection);
    }
    assert_eq!(held[0].receive().await, None, "the oldest idle one was replaced");
}

#[tokio::test]
async fn a_connection_without_calls_is_closed_and_one_that_waits_for_a_reply_is_not() {
    let limits = ServerLimits { idle: Duration::from_millis(100), ..ServerLimits::default() };
    let (server, share, file) = megabyte(limits).await;
    share.reads.forget_permits(Semaphore::MAX_PERMITS);
    let mut waiting = Raw::connect(server.address).await;
    waiting.send(&read_all(1, &file)).await;
    until(|| share.running.load(Ordering::SeqCst) == 1).await;
    for sent in [&[][..], &[0x80, 0]] {
        let mut idle = Raw::connect(server.address).await;
        idle.send(sent).await;
        assert_eq!(idle.receive().await, None);
    }
    share.reads.add_permits(1);
    assert!(waiting.receive().await.unwrap().len() > 1 << 20);
    assert_eq!(waiting.receive().await, None, "it is idle now");
}
