//! Mounts, exports, clients and handles.

use std::sync::Arc;

use nfs3_client::MountError;
use nfs3_types::mount::mountstat3;
use nfs3_types::nfs3::{ACCESS3args, GETATTR3args, LOOKUP3args, RENAME3args, nfs_fh3, nfsstat3};
use nfs3_types::rpc::opaque_auth;
use nfs3_types::xdr_codec::Opaque;
use seqferry_nfs::{ClientList, Export, ExportSpec, HandleKey, Server, ServerLimits, Squash};

use crate::client::{KEY, connect, connect_as, find, mounter, path, place, root, serve, serve_exports, status, user};
use crate::tree::MemoryShare;

fn refused<T: std::fmt::Debug>(result: Result<T, MountError>) -> String {
    result.unwrap_err().to_string()
}

fn export(spec: ExportSpec, share: &Arc<MemoryShare>) -> Export {
    Export::new(spec, Arc::clone(share) as _).unwrap()
}

#[tokio::test]
async fn many_exports_have_names_on_one_port_and_directories_below_them_mount_as_well() {
    let (share, other) = (MemoryShare::new(true), MemoryShare::new(true));
    share.add_directory("runs");
    share.add_file("file", b"bytes");
    let exports = vec![export(ExportSpec::new("share"), &share), export(ExportSpec::new("other"), &other)];
    let server = serve_exports(exports, ServerLimits::default()).await;
    let mut client = mounter(server.address).await;
    client.null().await.unwrap();
    let names: Vec<_> = client
        .export()
        .await
        .unwrap()
        .0
        .iter()
        .map(|node| String::from_utf8(node.ex_dir.0.to_vec()).unwrap())
        .collect();
    assert_eq!(names, ["/share", "/other"]);
    let mut handles = Vec::new();
    for mounted in ["/share", "/other", "/share/runs"] {
        let found = client.mnt(path(mounted)).await.unwrap();
        assert_eq!(found.auth_flavors, [1], "{mounted}: only users of Unix");
        handles.push(found.fhandle.0.to_vec());
    }
    let roots = handles.clone();
    handles.dedup();
    assert_eq!(handles.len(), 3, "each is its own directory");
    assert_eq!(client.mnt(path("share/")).await.unwrap().fhandle.0.to_vec(), roots[0]);
    for (absent, status) in [
        ("/", mountstat3::MNT3ERR_NOENT),
        ("", mountstat3::MNT3ERR_NOENT),
        ("/shared", mountstat3::MNT3ERR_NOENT),
        ("/shar", mountstat3::MNT3ERR_NOENT),
        ("/share/absent", mountstat3::MNT3ERR_NOENT),
        ("/share/file", mountstat3::MNT3ERR_NOTDIR),
        ("/share/file/x", mountstat3::MNT3ERR_NOTDIR),
        ("/share/../other", mountstat3::MNT3ERR_INVAL),
    ] {
        let text = refused(client.mnt(path(absent)).await);
        assert!(text.contains(&status.to_string()), "{absent:?}: {text}");
    }
    let mounts = |dump: nfs3_types::mount::mountlist<'_, '_>| -> Vec<String> {
        dump.0.iter().map(|mount| String::from_utf8(mount.ml_directory.0.to_vec()).unwrap()).collect()
    };
    assert_eq!(mounts(client.dump().await.unwrap()), ["/share", "/other", "/share/runs", "share/"]);
    client.umnt(path("/other")).await.unwrap();
    assert_eq!(mounts(client.dump().await.unwrap()), ["/share", "/share/runs", "share/"]);
    client.umntall().await.unwrap();
    assert!(mounts(client.dump().await.unwrap()).is_empty());
}

#[tokio::test]
async fn a_client_that_is_not_on_the_list_of_a_share_is_refused_at_its_mount_and_with_a_handle_of_another_client() {
    let share = MemoryShare::new(true);
    let open = serve(&share).await;
    let spec = ExportSpec { clients: ClientList::parse(&["192.0.2.0/24"]).unwrap(), ..ExportSpec::new("share") };
    let exports = vec![export(spec, &share), export(ExportSpec::new("open"), &share)];
    let closed = serve_exports(exports, ServerLimits::default()).await;
    let mut client = mounter(closed.address).await;
    assert!(refused(client.mnt(path("/share")).await).contains("MNT3ERR_ACCES"));
    assert_eq!(client.export().await.unwrap().0.len(), 1, "it sees the other one alone");
    // Both servers have one key: the handle is right, and its client is not on the list.
    let object = root(open.address).await;
    let answer = connect(closed.address).await.getattr(&GETATTR3args { object: object.clone() }).await.unwrap();
    assert_eq!(status(&answer), nfsstat3::NFS3ERR_ACCES);
    assert_eq!(
        status(&connect(open.address).await.getattr(&GETATTR3args { object }).await.unwrap()),
        nfsstat3::NFS3_OK
    );
}

#[tokio::test]
async fn handles_outlive_the_server_and_neither_forged_nor_foreign_ones_are_accepted() {
    let share = MemoryShare::new(true);
    share.add_file("file", b"bytes");
    let first = serve(&share).await;
    let top = root(first.address).await;
    let file = find(&mut connect(first.address).await, &top, "file").await;
    drop(first);
    let again = serve(&share).await;
    let mut client = connect(again.address).await;
    let mut ask = async |data: Vec<u8>| {
        let object = nfs_fh3 { data: Opaque::owned(data) };
        status(&client.getattr(&GETATTR3args { object }).await.unwrap())
    };
    let handle = file.data.to_vec();
    assert_eq!(ask(handle.clone()).await, nfsstat3::NFS3_OK);
    for at in 0..handle.len() {
        let mut forged = handle.clone();
        forged[at] ^= 0x10;
        let expected = if at < 4 { nfsstat3::NFS3ERR_BADHANDLE } else { nfsstat3::NFS3ERR_STALE };
        assert_eq!(ask(forged).await, expected, "byte {at}");
    }
    for length in [0, 1, handle.len() - 1, 64] {
        let mut cut = handle.clone();
        cut.resize(length, 0);
        assert_eq!(ask(cut).await, nfsstat3::NFS3ERR_BADHANDLE, "{length} bytes");
    }
    share.remove_file("file");
    assert_eq!(ask(handle).await, nfsstat3::NFS3ERR_STALE, "the file is gone");
    let another = ExportSpec { identity: "another bucket".to_owned(), ..ExportSpec::new("share") };
    let moved = serve_exports(vec![export(another, &share)], ServerLimits::default()).await;
    let object = top;
    let answer = connect(moved.address).await.getattr(&GETATTR3args { object }).await.unwrap();
    assert_eq!(status(&answer), nfsstat3::NFS3ERR_STALE, "the export stands for something else now");
}

#[tokio::test]
async fn users_are_squashed_before_the_share_hears_of_them() {
    let share = MemoryShare::new(true);
    let spec = |name, squash| ExportSpec { squash, ..ExportSpec::new(name) };
    let exports = vec![
        export(spec("share", Squash::Root), &share),
        export(spec("all", Squash::All), &share),
        export(spec("none", Squash::None), &share),
    ];
    let server = serve_exports(exports, ServerLimits::default()).await;
    let seen = async |mounted: &str, credentials: opaque_auth<'static>| {
        let mounted = mounter(server.address).await.mnt(path(mounted)).await.unwrap();
        let top = nfs_fh3 { data: Opaque::owned(mounted.fhandle.0.to_vec()) };
        let mut client = connect_as(server.address, credentials).await;
        let _absent = client.lookup(&LOOKUP3args { what: place(&top, "absent") }).await.unwrap();
        let caller = share.callers.lock().unwrap().pop().unwrap();
        assert_eq!(caller.address.to_string(), "127.0.0.1");
        (caller.uid, caller.gid, caller.groups)
    };
    assert_eq!(seen("/share", user(0, 0, &[0, 20])).await, (65534, 65534, vec![65534, 20]));
    assert_eq!(seen("/share", user(501, 20, &[0])).await, (501, 20, vec![65534]));
    assert_eq!(seen("/all", user(501, 20, &[30])).await, (65534, 65534, vec![]));
    assert_eq!(seen("/none", user(0, 0, &[4])).await, (0, 0, vec![4]));
    assert_eq!(seen("/none", opaque_auth::default()).await, (65534, 65534, vec![]), "without credentials never root");
}

#[tokio::test]
async fn rights_follow_owner_group_and_mode() {
    let share = MemoryShare::new(false);
    share.add_file("file", b"bytes");
    let server = serve(&share).await;
    let top = root(server.address).await;
    let object = find(&mut connect(server.address).await, &top, "file").await;
    let rights = async |uid, gids: &[u32]| {
        let mut client = connect_as(server.address, user(uid, 7, gids)).await;
        client.access(&ACCESS3args { object: object.clone(), access: 0x3f }).await.unwrap().unwrap().access
    };
    assert_eq!(rights(1000, &[]).await, 0x01 | 0x04 | 0x08, "the owner writes");
    assert_eq!(rights(2000, &[1000]).await, 0x01, "the group reads");
    assert_eq!(rights(2000, &[]).await, 0x01, "others read");
}

#[tokio::test]
async fn a_rename_between_exports_is_across_devices() {
    let (share, other) = (MemoryShare::new(false), MemoryShare::new(false));
    share.add_file("file", b"bytes");
    let exports = vec![export(ExportSpec::new("share"), &share), export(ExportSpec::new("other"), &other)];
    let server = serve_exports(exports, ServerLimits::default()).await;
    let there = mounter(server.address).await.mnt(path("/other")).await.unwrap();
    let (from, to) = (root(server.address).await, nfs_fh3 { data: Opaque::owned(there.fhandle.0.to_vec()) });
    let renaming = RENAME3args { from: place(&from, "file"), to: place(&to, "file") };
    let answer = connect(server.address).await.rename(&renaming).await.unwrap();
    assert_eq!(status(&answer), nfsstat3::NFS3ERR_XDEV);
}

#[tokio::test]
async fn wrong_exports_are_refused_with_the_cause() {
    let share = MemoryShare::new(true);
    let bind = async |address: &str, exports| {
        let limits = ServerLimits::default();
        let bound = Server::bind(address.parse().unwrap(), HandleKey::new(KEY), exports, limits).await;
        bound.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let one = || export(ExportSpec::new("share"), &share);
    assert!(bind("127.0.0.1:0", vec![]).await.contains("no share"));
    assert!(bind("127.0.0.1:0", vec![one(), one()]).await.contains("two shares are named share"));
    let same = ExportSpec { identity: "share".to_owned(), ..ExportSpec::new("twin") };
    assert!(bind("127.0.0.1:0", vec![one(), export(same, &share)]).await.contains("twin is the same"));
    for address in ["0.0.0.0:0", "[::]:0"] {
        assert!(bind(address, vec![one()]).await.contains("list its clients"), "{address}");
    }
    let listed = ExportSpec { clients: ClientList::parse(&["10.0.0.0/8"]).unwrap(), ..ExportSpec::new("share") };
    assert_eq!(bind("0.0.0.0:0", vec![export(listed, &share)]).await, "");
    let server = serve(&share).await;
    assert!(bind(&server.address.to_string(), vec![one()]).await.contains("Another program may use the port"));
    for name in ["", ".", "..", "a/b", "a\nb", &"x".repeat(256)] {
        assert!(Export::new(ExportSpec::new(name), Arc::clone(&share) as _).is_err(), "{name:?}");
    }
    assert!(Export::new(ExportSpec::new(&"x".repeat(255)), Arc::clone(&share) as _).is_ok());
}
