//! Records and heads of calls that are wrong.

use nfs3_types::mount;
use nfs3_types::nfs3::{PROGRAM, VERSION};
use nfs3_types::rpc::{auth_flavor, fragment_header, opaque_auth};
use nfs3_types::xdr_codec::{Opaque, Void};

use seqferry_nfs::{ClientList, Export, ExportSpec, ServerLimits};

use crate::client::{Raw, call, call_of, serve, serve_exports, user, words};
use crate::tree::MemoryShare;

#[tokio::test]
async fn calls_to_what_is_not_there_are_answered_with_the_cause() {
    let server = serve(&MemoryShare::new(true)).await;
    let mut connection = Raw::connect(server.address).await;
    // Words of a reply: number, 1 (reply), accepted or denied, then the verifier and the status, or the cause.
    let accepted = |status: &[u32]| [&[9, 1, 0, 0, 0], status].concat();
    let denied = |cause: &[u32]| [&[9, 1, 1], cause].concat();
    let gss = || opaque_auth { flavor: auth_flavor::AUTH_DES, body: Opaque::owned(vec![0; 8]) };
    let short = || opaque_auth { flavor: auth_flavor::AUTH_UNIX, body: Opaque::owned(vec![0; 8]) };
    let many = user(1, 1, &[5; 17]);
    for (target, version, credentials, expected) in [
        ((100_000, 2, 3), 2, user(1, 1, &[]), accepted(&[1])),
        ((PROGRAM, 4, 0), 2, user(1, 1, &[]), accepted(&[2, 3, 3])),
        ((PROGRAM, 2, 1), 2, user(1, 1, &[]), accepted(&[2, 3, 3])),
        ((mount::PROGRAM, 1, 1), 2, user(1, 1, &[]), accepted(&[2, 3, 3])),
        ((PROGRAM, VERSION, 22), 2, user(1, 1, &[]), accepted(&[3])),
        ((mount::PROGRAM, VERSION, 6), 2, user(1, 1, &[]), accepted(&[3])),
        ((PROGRAM, VERSION, 1), 2, user(1, 1, &[]), accepted(&[4])),
        ((PROGRAM, VERSION, 1), 3, user(1, 1, &[]), denied(&[0, 2, 2])),
        ((PROGRAM, VERSION, 1), 2, gss(), denied(&[1, 5])),
        ((PROGRAM, VERSION, 1), 2, short(), denied(&[1, 1])),
        ((PROGRAM, VERSION, 1), 2, many, denied(&[1, 1])),
        ((PROGRAM, VERSION, 0), 2, gss(), accepted(&[0])),
        ((mount::PROGRAM, VERSION, 0), 2, opaque_auth::default(), accepted(&[0])),
    ] {
        connection.send(&call_of(9, target, version, credentials, &Void)).await;
        let reply = words(&connection.receive().await.unwrap());
        assert_eq!(reply, expected, "{target:?}, version {version} of calls");
    }
}

#[tokio::test]
async fn arguments_that_are_cut_or_lie_about_their_length_are_garbage() {
    let server = serve(&MemoryShare::new(false)).await;
    let mut connection = Raw::connect(server.address).await;
    let huge = u32::MAX.to_be_bytes();
    for procedure in 1..=21 {
        for arguments in [&[][..], &huge, &[0, 0, 0, 2, 1, 2], &[0; 3]] {
            let mut record = call(9, procedure, &Void);
            record.extend(arguments);
            let mark = fragment_header::new(u32::try_from(record.len() - 4).unwrap(), true);
            record[..4].copy_from_slice(&mark.into_xdr_buf());
            connection.send(&record).await;
            let reply = words(&connection.receive().await.unwrap());
            assert_eq!(reply, [9, 1, 0, 0, 0, 4], "procedure {procedure} with {arguments:?}");
        }
    }
}

#[tokio::test]
async fn an_address_on_no_list_of_clients_is_closed_before_it_sends_anything() {
    let clients = ClientList::parse(&["192.0.2.1"]).unwrap();
    let export = Export::new(ExportSpec { clients, ..ExportSpec::new("share") }, MemoryShare::new(true)).unwrap();
    let server = serve_exports(vec![export], ServerLimits::default()).await;
    // More than all places for connections.
    for _ in 0..1100 {
        assert_eq!(Raw::connect(server.address).await.receive().await, None);
    }
}

#[tokio::test]
async fn connections_with_records_that_no_client_sends_are_closed_and_others_go_on() {
    let server = serve(&MemoryShare::new(true)).await;
    let reply_record = [fragment_header::new(8, true).into_xdr_buf(), [0; 4], [0, 0, 0, 1]].concat();
    let empty = fragment_header::new(0, true).into_xdr_buf().to_vec();
    let oversized = fragment_header::new(fragment_header::MASK, true).into_xdr_buf().to_vec();
    let slightly = fragment_header::new((1 << 20) + 4097, true).into_xdr_buf().to_vec();
    let endless = fragment_header::new(0, false).into_xdr_buf().repeat(70);
    let text = b"GET / HTTP/1.1\r\n\r\n".to_vec();
    for wire in [reply_record, empty, oversized, slightly, endless, text] {
        let mut connection = Raw::connect(server.address).await;
        connection.send(&wire).await;
        assert_eq!(connection.receive().await, None, "{wire:?}");
    }
    let mut connection = Raw::connect(server.address).await;
    // A call in three fragments, one byte at a time on the wire.
    let whole = call(3, 0, &Void);
    let body = &whole[4..];
    let mut wire = Vec::new();
    for (part, is_last) in [(&body[..5], false), (&body[5..9], false), (&body[9..], true)] {
        wire.extend(fragment_header::new(u32::try_from(part.len()).unwrap(), is_last).into_xdr_buf());
        wire.extend(part);
    }
    for byte in wire {
        connection.send(&[byte]).await;
    }
    assert_eq!(words(&connection.receive().await.unwrap()), [3, 1, 0, 0, 0, 0]);
}
