//! Many calls, slow shares, and clients that do not take their replies.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nfs3_types::nfs3::{READ3args, WRITE3args, stable_how};
use nfs3_types::xdr_codec::Opaque;
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
    // Room for two calls of the largest size in all: those that wait hold nothing that the others need.
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
