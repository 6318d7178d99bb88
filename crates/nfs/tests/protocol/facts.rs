//! Reading: facts, names, bytes and listings, and each error of a share.

use nfs3_types::nfs3::{
    ACCESS3args, COMMIT3args, CREATE3args, FSINFO3args, FSSTAT3args, GETATTR3args, LINK3args, LOOKUP3args, MKDIR3args,
    MKNOD3args, Nfs3Option, PATHCONF3args, READ3args, READDIR3args, READDIRPLUS3args, READLINK3args, REMOVE3args,
    RENAME3args, RMDIR3args, SETATTR3args, SYMLINK3args, WRITE3args, cookieverf3, createhow3, ftype3, mknoddata3,
    nfs_fh3, nfspath3, nfsstat3, sattr3, stable_how, symlinkdata3,
};
use nfs3_types::xdr_codec::{Opaque, Pack as _};
use seqferry_share::FileError;

use crate::client::{Nfs, connect, find, place, root, serve, status};
use crate::tree::MemoryShare;

#[tokio::test]
async fn reading_tells_facts_names_and_bytes() {
    let share = MemoryShare::new(true);
    let bytes: Vec<u8> = (0..3_000_001_u32).map(|at| (at % 251) as u8).collect();
    share.add_file("file", &bytes);
    share.add_link("link", "runs/1");
    share.add_directory("runs");
    let server = serve(&share).await;
    let mut client = connect(server.address).await;
    client.null().await.unwrap();
    let top = root(server.address).await;
    let file = find(&mut client, &top, "file").await;

    let facts = client.getattr(&GETATTR3args { object: file.clone() }).await.unwrap().unwrap().obj_attributes;
    assert_eq!((facts.type_, facts.mode, facts.uid, facts.size), (ftype3::NF3REG, 0o644, 1000, 3_000_001));
    assert!(facts.mtime.seconds > 1_700_000_000);

    let (mut whole, mut at) = (Vec::new(), 0);
    loop {
        let read = client.read(&READ3args { file: file.clone(), offset: at, count: u32::MAX }).await.unwrap().unwrap();
        assert!(read.count <= 1 << 20, "a read is at most what FSINFO says");
        assert_eq!(read.data.len(), read.count as usize);
        whole.extend_from_slice(&read.data);
        at += u64::from(read.count);
        if read.eof {
            break;
        }
    }
    assert!(whole == bytes);
    let beyond = client.read(&READ3args { file: file.clone(), offset: u64::MAX, count: 9 }).await.unwrap().unwrap();
    assert_eq!((beyond.count, beyond.eof), (0, true));

    let link = find(&mut client, &top, "link").await;
    let target = client.readlink(&READLINK3args { symlink: link }).await.unwrap().unwrap();
    assert_eq!(target.data.as_ref(), b"runs/1");
    assert_eq!(
        status(&client.readlink(&READLINK3args { symlink: file.clone() }).await.unwrap()),
        nfsstat3::NFS3ERR_INVAL
    );

    assert_eq!(find(&mut client, &top, "..").await, top);
    let access = client.access(&ACCESS3args { object: file.clone(), access: 0x3f }).await.unwrap().unwrap();
    assert_eq!(access.access, 1, "a read-only share grants nothing but reading, to its owner as well");

    let space = client.fsstat(&FSSTAT3args { fsroot: top.clone() }).await.unwrap().unwrap();
    assert_eq!((space.tbytes, space.abytes), (i64::MAX as u64, 1 << 40));
    assert!(i64::try_from(space.tfiles).is_ok());
    let limits = client.fsinfo(&FSINFO3args { fsroot: top.clone() }).await.unwrap().unwrap();
    assert_eq!((limits.rtmax, limits.wtmax, limits.properties), (1 << 20, 1 << 20, 2 | 8));
    let names = client.pathconf(&PATHCONF3args { object: top.clone() }).await.unwrap().unwrap();
    assert_eq!((names.name_max, names.linkmax, names.no_trunc, names.case_preserving), (255, 1, true, true));

    for (name, expected) in [
        ("absent", nfsstat3::NFS3ERR_NOENT),
        ("", nfsstat3::NFS3ERR_INVAL),
        ("a/b", nfsstat3::NFS3ERR_INVAL),
        ("a\0b", nfsstat3::NFS3ERR_INVAL),
        (&"x".repeat(256), nfsstat3::NFS3ERR_NAMETOOLONG),
        (&"x".repeat(255), nfsstat3::NFS3ERR_NOENT),
    ] {
        let found = client.lookup(&LOOKUP3args { what: place(&top, name) }).await.unwrap();
        assert_eq!(status(&found), expected, "{name:?}");
    }
    let below_a_file = client.lookup(&LOOKUP3args { what: place(&file, "x") }).await.unwrap();
    assert_eq!(status(&below_a_file), nfsstat3::NFS3ERR_NOTDIR);
    let directory = client.read(&READ3args { file: top, offset: 0, count: 1 }).await.unwrap();
    assert_eq!(status(&directory), nfsstat3::NFS3ERR_ISDIR);
}

#[tokio::test]
async fn each_error_of_a_share_has_its_status() {
    let share = MemoryShare::new(true);
    let server = serve(&share).await;
    let top = root(server.address).await;
    let mut client = connect(server.address).await;
    for (error, expected) in [
        (FileError::NotPermitted, nfsstat3::NFS3ERR_PERM),
        (FileError::NotFound, nfsstat3::NFS3ERR_NOENT),
        (FileError::Io, nfsstat3::NFS3ERR_IO),
        (FileError::AccessDenied, nfsstat3::NFS3ERR_ACCES),
        (FileError::Exists, nfsstat3::NFS3ERR_EXIST),
        (FileError::CrossDevice, nfsstat3::NFS3ERR_XDEV),
        (FileError::NotADirectory, nfsstat3::NFS3ERR_NOTDIR),
        (FileError::IsADirectory, nfsstat3::NFS3ERR_ISDIR),
        (FileError::Invalid, nfsstat3::NFS3ERR_INVAL),
        (FileError::TooLarge, nfsstat3::NFS3ERR_FBIG),
        (FileError::NoSpace, nfsstat3::NFS3ERR_NOSPC),
        (FileError::ReadOnly, nfsstat3::NFS3ERR_ROFS),
        (FileError::NameTooLong, nfsstat3::NFS3ERR_NAMETOOLONG),
        (FileError::NotEmpty, nfsstat3::NFS3ERR_NOTEMPTY),
        (FileError::QuotaExceeded, nfsstat3::NFS3ERR_DQUOT),
        (FileError::Stale, nfsstat3::NFS3ERR_STALE),
        (FileError::NotSynchronized, nfsstat3::NFS3ERR_NOT_SYNC),
        (FileError::BadCookie, nfsstat3::NFS3ERR_BAD_COOKIE),
        (FileError::NotSupported, nfsstat3::NFS3ERR_NOTSUPP),
        (FileError::TryLater, nfsstat3::NFS3ERR_JUKEBOX),
    ] {
        *share.failure.lock().unwrap() = Some(error);
        let answer = client.lookup(&LOOKUP3args { what: place(&top, "x") }).await.unwrap();
        assert_eq!(status(&answer), expected, "{error}");
    }
}

#[tokio::test]
async fn a_read_only_share_refuses_every_change_with_one_status() {
    let share = MemoryShare::new(true);
    share.add_file("file", b"bytes");
    let server = serve(&share).await;
    let top = root(server.address).await;
    let mut client = connect(server.address).await;
    let file = find(&mut client, &top, "file").await;
    let data = Opaque::borrowed(b"x");
    let write = WRITE3args { file: file.clone(), offset: 0, count: 1, stable: stable_how::UNSTABLE, data };
    let attributes = sattr3::default();
    let symlink =
        symlinkdata3 { symlink_attributes: sattr3::default(), symlink_data: nfspath3(Opaque::borrowed(b"t")) };
    let seen = [
        status(
            &client
                .setattr(&SETATTR3args {
                    object: file.clone(),
                    new_attributes: sattr3::default(),
                    guard: Nfs3Option::None,
                })
                .await
                .unwrap(),
        ),
        status(&client.write(&write).await.unwrap()),
        status(
            &client
                .create(&CREATE3args { where_: place(&top, "new"), how: createhow3::UNCHECKED(sattr3::default()) })
                .await
                .unwrap(),
        ),
        status(&client.mkdir(&MKDIR3args { where_: place(&top, "new"), attributes }).await.unwrap()),
        status(&client.symlink(&SYMLINK3args { where_: place(&top, "new"), symlink }).await.unwrap()),
        status(
            &client
                .mknod(&MKNOD3args { where_: place(&top, "new"), what: mknoddata3::NF3FIFO(sattr3::default()) })
                .await
                .unwrap(),
        ),
        status(&client.remove(&REMOVE3args { object: place(&top, "file") }).await.unwrap()),
        status(&client.rmdir(&RMDIR3args { object: place(&top, "absent") }).await.unwrap()),
        status(&client.rename(&RENAME3args { from: place(&top, "file"), to: place(&top, "b") }).await.unwrap()),
        status(&client.link(&LINK3args { file: file.clone(), link: place(&top, "b") }).await.unwrap()),
        status(&client.commit(&COMMIT3args { file, offset: 0, count: 0 }).await.unwrap()),
    ];
    assert_eq!(seen, [nfsstat3::NFS3ERR_ROFS; 11]);
    assert_eq!(share.bytes("file").unwrap(), b"bytes");
}

/// Names of a directory, read in listings of this many bytes.
async fn names(client: &mut Nfs, dir: &nfs_fh3, count: u32) -> Vec<String> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let cookieverf = cookieverf3::default();
        let listed =
            client.readdir(&READDIR3args { dir: dir.clone(), cookie, cookieverf, count }).await.unwrap().unwrap();
        assert!(listed.packed_size() <= count.min(1 << 17) as usize);
        for entry in &listed.reply.entries.0 {
            names.push(String::from_utf8(entry.name.0.to_vec()).unwrap());
            cookie = entry.cookie;
        }
        if listed.reply.eof {
            return names;
        }
    }
}

#[tokio::test]
async fn listings_hold_each_name_once_whatever_room_a_client_gives() {
    let share = MemoryShare::new(true);
    let expected: Vec<String> = (0..10_000).map(|number| format!("file-{number:05}")).collect();
    for name in &expected {
        share.add_file(name, b"");
    }
    let server = serve(&share).await;
    let top = root(server.address).await;
    let mut client = connect(server.address).await;
    for count in [4096, 65_536, u32::MAX] {
        let found = names(&mut client, &top, count).await;
        assert_eq!(found[..2], [".", ".."]);
        assert!(found[2..] == expected, "{count} bytes");
    }
    let (mut found, mut cookie) = (Vec::new(), 0);
    loop {
        let cookieverf = cookieverf3::default();
        let args = READDIRPLUS3args { dir: top.clone(), cookie, cookieverf, dircount: 2048, maxcount: 16_384 };
        let listed = client.readdirplus(&args).await.unwrap().unwrap();
        assert!(listed.packed_size() <= 16_384);
        let names: usize = listed.reply.entries.0.iter().map(|entry| 20 + entry.name.0.len().next_multiple_of(4)).sum();
        assert!(names <= 2048);
        for entry in &listed.reply.entries.0 {
            assert!(entry.name_attributes.is_some() && entry.name_handle.is_some());
            found.push(String::from_utf8(entry.name.0.to_vec()).unwrap());
            cookie = entry.cookie;
        }
        if listed.reply.eof {
            break;
        }
    }
    assert!(found[2..] == expected);
}

#[tokio::test]
async fn names_that_stay_are_listed_once_while_others_come_and_go() {
    let share = MemoryShare::new(true);
    for number in 0..2_000 {
        share.add_file(&format!("{}-{number}", if number % 2 == 0 { "steady" } else { "going" }), b"");
    }
    let server = serve(&share).await;
    let top = root(server.address).await;
    let mut client = connect(server.address).await;
    let (mut found, mut cookie, mut round) = (Vec::new(), 0, 0);
    loop {
        let args = READDIR3args { dir: top.clone(), cookie, cookieverf: cookieverf3::default(), count: 2048 };
        let listed = client.readdir(&args).await.unwrap().unwrap();
        for entry in &listed.reply.entries.0 {
            found.push(String::from_utf8(entry.name.0.to_vec()).unwrap());
            cookie = entry.cookie;
        }
        if listed.reply.eof {
            break;
        }
        for number in (0..20).map(|at| 40 * round + 2 * at + 1).filter(|number| *number < 2_000) {
            share.remove_file(&format!("going-{number}"));
        }
        if round < 20 {
            share.add_file(&format!("new-{round}"), b"");
        }
        round += 1;
    }
    let mut steady: Vec<&String> = found.iter().filter(|name| name.starts_with("steady")).collect();
    assert_eq!(steady.len(), 1_000);
    steady.sort();
    steady.dedup();
    assert_eq!(steady.len(), 1_000);
}

#[tokio::test]
async fn a_listing_without_room_for_one_name_says_so() {
    let share = MemoryShare::new(true);
    share.add_file(&"n".repeat(200), b"");
    let server = serve(&share).await;
    let top = root(server.address).await;
    let mut client = connect(server.address).await;
    let cookieverf = cookieverf3::default();
    for count in [0, 1, 64, 104, 127, 300] {
        // The long name is after the entries of the directory itself, of cookies 1 and 2.
        let args = READDIR3args { dir: top.clone(), cookie: 2, cookieverf, count };
        let expected = nfsstat3::NFS3ERR_TOOSMALL;
        assert_eq!(status(&client.readdir(&args).await.unwrap()), expected, "{count} bytes");
        let args = READDIRPLUS3args { dir: top.clone(), cookie: 2, cookieverf, dircount: count, maxcount: count };
        assert_eq!(status(&client.readdirplus(&args).await.unwrap()), expected, "{count} bytes with facts");
    }
    let args = READDIRPLUS3args { dir: top.clone(), cookie: 0, cookieverf, dircount: 1, maxcount: 4096 };
    let listed = client.readdirplus(&args).await.unwrap().unwrap();
    assert_eq!((listed.reply.entries.0.len(), listed.reply.eof), (1, false), "one name always comes");
    let file = find(&mut client, &top, &"n".repeat(200)).await;
    let args = READDIR3args { dir: file, cookie: 0, cookieverf, count: 4096 };
    assert_eq!(status(&client.readdir(&args).await.unwrap()), nfsstat3::NFS3ERR_NOTDIR);
}
