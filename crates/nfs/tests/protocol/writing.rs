//! Changes: bytes, names and facts, with what clients compare around them.

use nfs3_types::nfs3::{
    COMMIT3args, CREATE3args, LINK3args, MKDIR3args, MKNOD3args, Nfs3Option, REMOVE3args, RENAME3args, RMDIR3args,
    SETATTR3args, SYMLINK3args, WRITE3args, createhow3, createverf3, mknoddata3, nfs_fh3, nfspath3, nfsstat3, nfstime3,
    sattr3, set_mtime, stable_how, symlinkdata3,
};
use nfs3_types::xdr_codec::Opaque;

use crate::client::{Nfs, connect, find, place, root, serve, status};
use crate::tree::MemoryShare;

async fn create(client: &mut Nfs, top: &nfs_fh3, name: &str, how: createhow3) -> nfs3_types::nfs3::CREATE3res {
    client.create(&CREATE3args { where_: place(top, name), how }).await.unwrap()
}

#[tokio::test]
async fn files_are_created_written_committed_and_removed() {
    let share = MemoryShare::new(false);
    let server = serve(&share).await;
    let top = root(server.address).await;
    let mut client = connect(server.address).await;
    let mode = || sattr3 { mode: Nfs3Option::Some(0o100_640), ..sattr3::default() };
    let created = create(&mut client, &top, "file", createhow3::GUARDED(mode())).await.unwrap();
    assert_eq!(created.obj_attributes.unwrap().mode, 0o640);
    let (before, after) = (created.dir_wcc.before.unwrap(), created.dir_wcc.after.unwrap());
    assert!(after.mtime.seconds > before.mtime.seconds, "the directory has changed");
    let twice = create(&mut client, &top, "file", createhow3::GUARDED(mode())).await;
    assert_eq!(status(&twice), nfsstat3::NFS3ERR_EXIST);
    let kept = create(&mut client, &top, "file", createhow3::UNCHECKED(sattr3::default())).await;
    assert_eq!(status(&kept), nfsstat3::NFS3_OK);
    let file = created.obj.unwrap();

    let bytes: Vec<u8> = (0..1_048_576_u32).map(|at| (at % 249) as u8).collect();
    for (offset, stable) in [(0, stable_how::UNSTABLE), (1 << 20, stable_how::FILE_SYNC), (3, stable_how::DATA_SYNC)] {
        let data = Opaque::borrowed(&bytes);
        let count = u32::try_from(bytes.len()).unwrap();
        let written =
            client.write(&WRITE3args { file: file.clone(), offset, count, stable, data }).await.unwrap().unwrap();
        assert_eq!((written.count, written.committed), (count, stable));
        assert_eq!(written.file_wcc.after.unwrap().size, if offset == 0 { 1 << 20 } else { 2 << 20 });
        let committed = client.commit(&COMMIT3args { file: file.clone(), offset: 0, count: 0 }).await.unwrap().unwrap();
        assert_eq!(committed.verf, written.verf, "one start has one verifier");
    }
    assert!(share.bytes("file").unwrap()[3..3 + bytes.len()] == bytes);
    // A count below the length of the data writes what it says.
    let part = WRITE3args {
        file: file.clone(),
        offset: 0,
        count: 2,
        stable: stable_how::UNSTABLE,
        data: Opaque::borrowed(b"abcd"),
    };
    assert_eq!(client.write(&part).await.unwrap().unwrap().count, 2);
    assert_eq!(share.bytes("file").unwrap()[..3], [b'a', b'b', 2]);
    for offset in [u64::MAX, u64::MAX - 3, 5 << 40] {
        let data = Opaque::borrowed(b"abcd");
        let far = WRITE3args { file: file.clone(), offset, count: 4, stable: stable_how::UNSTABLE, data };
        assert_eq!(status(&client.write(&far).await.unwrap()), nfsstat3::NFS3ERR_FBIG, "{offset}");
    }
    assert_eq!(status(&client.remove(&REMOVE3args { object: place(&top, "file") }).await.unwrap()), nfsstat3::NFS3_OK);
    let gone = WRITE3args { file, offset: 0, count: 1, stable: stable_how::UNSTABLE, data: Opaque::borrowed(b"x") };
    assert_eq!(status(&client.write(&gone).await.unwrap()), nfsstat3::NFS3ERR_STALE);
}

#[tokio::test]
async fn a_server_that_was_started_anew_has_another_verifier() {
    let share = MemoryShare::new(false);
    share.add_file("file", b"");
    let first = serve(&share).await;
    let top = root(first.address).await;
    let mut client = connect(first.address).await;
    let file = find(&mut client, &top, "file").await;
    let data = Opaque::borrowed(b"bytes");
    let write = WRITE3args { file: file.clone(), offset: 0, count: 5, stable: stable_how::UNSTABLE, data };
    let written = client.write(&write).await.unwrap().unwrap();
    drop((client, first));
    let second = serve(&share).await;
    let mut client = connect(second.address).await;
    let committed = client.commit(&COMMIT3args { file, offset: 0, count: 0 }).await.unwrap().unwrap();
    assert_ne!(committed.verf, written.verf, "the client must write again what it had not committed");
}

#[tokio::test]
async fn an_exclusive_creation_succeeds_again_with_its_own_number_alone() {
    let share = MemoryShare::new(false);
    let server = serve(&share).await;
    let top = root(server.address).await;
    let exclusive = |number: u8| createhow3::EXCLUSIVE(createverf3([number; 8]));
    // Other connections: the calls do not look alike to the replies that are kept.
    for (number, expected) in [(1, nfsstat3::NFS3_OK), (1, nfsstat3::NFS3_OK), (2, nfsstat3::NFS3ERR_EXIST)] {
        let mut client = connect(server.address).await;
        let created = create(&mut client, &top, "lock", exclusive(number)).await;
        assert_eq!(status(&created), expected);
    }
}

#[tokio::test]
async fn names_are_made_renamed_and_removed() {
    let share = MemoryShare::new(false);
    share.add_file("file", b"bytes");
    let server = serve(&share).await;
    let top = root(server.address).await;
    let mut client = connect(server.address).await;
    let attributes = || sattr3 { mode: Nfs3Option::Some(0o700), ..sattr3::default() };
    let made =
        client.mkdir(&MKDIR3args { where_: place(&top, "runs"), attributes: attributes() }).await.unwrap().unwrap();
    assert_eq!(made.obj_attributes.unwrap().mode, 0o700);
    let runs = made.obj.unwrap();
    let renaming = RENAME3args { from: place(&top, "file"), to: place(&runs, "renamed") };
    let renamed = client.rename(&renaming).await.unwrap().unwrap();
    assert!(renamed.fromdir_wcc.before.is_some() && renamed.todir_wcc.after.is_some());
    find(&mut client, &runs, "renamed").await;
    assert_eq!(status(&client.rename(&renaming).await.unwrap()), nfsstat3::NFS3ERR_NOENT);
    assert_eq!(
        status(&client.rmdir(&RMDIR3args { object: place(&top, "runs") }).await.unwrap()),
        nfsstat3::NFS3ERR_NOTEMPTY
    );
    let file = client.remove(&REMOVE3args { object: place(&top, "runs") }).await.unwrap();
    assert_eq!(status(&file), nfsstat3::NFS3ERR_ISDIR);
    let symlink = |target: &'static [u8]| symlinkdata3 {
        symlink_attributes: sattr3::default(),
        symlink_data: nfspath3(Opaque::borrowed(target)),
    };
    let linked =
        client.symlink(&SYMLINK3args { where_: place(&top, "link"), symlink: symlink(b"runs") }).await.unwrap();
    assert_eq!(linked.unwrap().obj_attributes.unwrap().size, 4);
    let empty = client.symlink(&SYMLINK3args { where_: place(&top, "none"), symlink: symlink(b"") }).await.unwrap();
    assert_eq!(status(&empty), nfsstat3::NFS3ERR_INVAL);
    let node = MKNOD3args { where_: place(&top, "pipe"), what: mknoddata3::NF3FIFO(sattr3::default()) };
    assert_eq!(status(&client.mknod(&node).await.unwrap()), nfsstat3::NFS3ERR_NOTSUPP);
    let hard = LINK3args { file: runs.clone(), link: place(&top, "hard") };
    assert_eq!(status(&client.link(&hard).await.unwrap()), nfsstat3::NFS3ERR_NOTSUPP);
    for (name, expected) in [
        (".", nfsstat3::NFS3ERR_EXIST),
        ("..", nfsstat3::NFS3ERR_EXIST),
        ("", nfsstat3::NFS3ERR_INVAL),
        ("a/b", nfsstat3::NFS3ERR_INVAL),
        (&"x".repeat(256), nfsstat3::NFS3ERR_NAMETOOLONG),
    ] {
        let made = client.mkdir(&MKDIR3args { where_: place(&top, name), attributes: attributes() }).await.unwrap();
        assert_eq!(status(&made), expected, "{name:?}");
    }
    for name in [".", ".."] {
        let removed = client.rmdir(&RMDIR3args { object: place(&top, name) }).await.unwrap();
        assert_eq!(status(&removed), nfsstat3::NFS3ERR_INVAL, "{name:?}");
    }
}

#[tokio::test]
async fn facts_are_set_unless_the_file_has_changed_meanwhile() {
    let share = MemoryShare::new(false);
    share.add_file("file", b"bytes");
    let server = serve(&share).await;
    let top = root(server.address).await;
    let mut client = connect(server.address).await;
    let object = find(&mut client, &top, "file").await;
    let time = nfstime3 { seconds: 1_600_000_000, nseconds: 123_456_789 };
    let new_attributes = || sattr3 {
        mode: Nfs3Option::Some(0o600),
        uid: Nfs3Option::Some(7),
        size: Nfs3Option::Some(2),
        mtime: set_mtime::SET_TO_CLIENT_TIME(time),
        ..sattr3::default()
    };
    let set = SETATTR3args { object: object.clone(), new_attributes: new_attributes(), guard: Nfs3Option::None };
    let facts = client.setattr(&set).await.unwrap().unwrap().obj_wcc.after.unwrap();
    assert_eq!((facts.mode, facts.uid, facts.gid, facts.size, facts.mtime), (0o600, 7, 1000, 2, time));
    for (guard, expected) in [(time, nfsstat3::NFS3ERR_NOT_SYNC), (facts.ctime, nfsstat3::NFS3_OK)] {
        let guard = Nfs3Option::Some(guard);
        let set = SETATTR3args { object: object.clone(), new_attributes: new_attributes(), guard };
        assert_eq!(status(&client.setattr(&set).await.unwrap()), expected);
    }
    let huge = sattr3 { size: Nfs3Option::Some((5 << 40) + 1), ..sattr3::default() };
    let set = SETATTR3args { object, new_attributes: huge, guard: Nfs3Option::None };
    assert_eq!(status(&client.setattr(&set).await.unwrap()), nfsstat3::NFS3ERR_FBIG);
}
