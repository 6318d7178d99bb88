//! Calls that come again: they are answered and not run again.

use std::sync::atomic::Ordering;

use nfs3_types::nfs3::{REMOVE3args, WRITE3args, stable_how};
use nfs3_types::xdr_codec::Opaque;
use seqferry_share::FileError;
use tokio::sync::Semaphore;

use crate::client::{Raw, call, connect, find, place, root, serve, until, words};
use crate::tree::MemoryShare;

const REMOVE: u32 = 12;
const WRITE: u32 = 7;
/// Word of a reply that holds the status of the procedure.
const STATUS: usize = 6;

#[tokio::test]
async fn a_call_that_comes_again_over_any_connection_gets_the_same_reply() {
    let share = MemoryShare::new(false);
    share.add_file("file", b"bytes");
    let server = serve(&share).await;
    let top = root(server.address).await;
    let removal = call(77, REMOVE, &REMOVE3args { object: place(&top, "file") });
    let mut first = Raw::connect(server.address).await;
    first.send(&removal).await;
    let reply = first.receive().await.unwrap();
    assert_eq!(words(&reply)[STATUS], 0);
    first.send(&removal).await;
    assert_eq!(first.receive().await.unwrap(), reply, "the same connection");
    drop(first);
    let mut second = Raw::connect(server.address).await;
    second.send(&removal).await;
    assert_eq!(second.receive().await.unwrap(), reply, "another connection");
    assert_eq!(share.removals_begun.load(Ordering::SeqCst), 1);
    // The same number with another name is another call.
    second.send(&call(77, REMOVE, &REMOVE3args { object: place(&top, "fill") })).await;
    assert_eq!(words(&second.receive().await.unwrap())[STATUS], 2, "no such file");
}

#[tokio::test]
async fn a_call_that_comes_again_while_it_runs_waits_for_the_one_reply() {
    let share = MemoryShare::new(false);
    share.add_file("file", b"bytes");
    share.removals.forget_permits(Semaphore::MAX_PERMITS);
    let server = serve(&share).await;
    let top = root(server.address).await;
    let removal = call(5, REMOVE, &REMOVE3args { object: place(&top, "file") });
    let mut connections = Vec::new();
    for _ in 0..3 {
        let mut connection = Raw::connect(server.address).await;
        connection.send(&removal).await;
        connections.push(connection);
    }
    until(|| share.removals_begun.load(Ordering::SeqCst) == 1).await;
    // The client has given its first connection up; the removal continues.
    connections.remove(0);
    share.removals.add_permits(10);
    for mut connection in connections {
        assert_eq!(words(&connection.receive().await.unwrap())[STATUS], 0);
    }
    assert_eq!(share.removals_begun.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_write_that_was_delayed_on_an_old_connection_does_not_undo_a_later_one() {
    let share = MemoryShare::new(false);
    share.add_file("file", b"");
    let server = serve(&share).await;
    let top = root(server.address).await;
    let file = find(&mut connect(server.address).await, &top, "file").await;
    let write = |xid, data: &'static [u8]| {
        let data = Opaque::borrowed(data);
        call(xid, WRITE, &WRITE3args { file: file.clone(), offset: 0, count: 3, stable: stable_how::UNSTABLE, data })
    };
    let mut connection = Raw::connect(server.address).await;
    for (xid, data) in [(1, b"old"), (2, b"new"), (1, b"old")] {
        connection.send(&write(xid, data)).await;
        assert_eq!(words(&connection.receive().await.unwrap())[STATUS], 0);
    }
    assert_eq!(share.bytes("file").unwrap(), b"new");
}

#[tokio::test]
async fn a_write_that_differs_from_one_before_in_its_last_byte_alone_is_carried_out() {
    let share = MemoryShare::new(false);
    share.add_file("file", b"");
    let server = serve(&share).await;
    let top = root(server.address).await;
    let file = find(&mut connect(server.address).await, &top, "file").await;
    for last in [1, 2] {
        let mut data = vec![0; 4096];
        data[4095] = last;
        let written = Opaque::borrowed(&data);
        let arguments =
            WRITE3args { file: file.clone(), offset: 0, count: 4096, stable: stable_how::FILE_SYNC, data: written };
        // A program that numbers its calls again over each connection.
        let mut connection = Raw::connect(server.address).await;
        connection.send(&call(1, WRITE, &arguments)).await;
        assert_eq!(words(&connection.receive().await.unwrap())[STATUS], 0);
        assert_eq!(share.bytes("file").unwrap(), data, "acknowledged");
    }
}

#[tokio::test]
async fn a_call_that_did_nothing_for_now_runs_when_it_comes_again() {
    let share = MemoryShare::new(false);
    share.add_file("file", b"bytes");
    let server = serve(&share).await;
    let top = root(server.address).await;
    let removal = call(9, REMOVE, &REMOVE3args { object: place(&top, "file") });
    let mut connection = Raw::connect(server.address).await;
    *share.failure.lock().unwrap() = Some(FileError::TryLater);
    connection.send(&removal).await;
    assert_eq!(words(&connection.receive().await.unwrap())[STATUS], 10008);
    share.panics.store(true, Ordering::SeqCst);
    connection.send(&removal).await;
    assert_eq!(words(&connection.receive().await.unwrap())[5], 5, "a defect of the share ends one call");
    connection.send(&removal).await;
    assert_eq!(words(&connection.receive().await.unwrap())[STATUS], 0);
    assert_eq!(share.bytes("file"), None);
}
