//! Archives of other programs look as the folders that they were made of.

use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use seqferry_vfs::tree::MEMBER_BIT;

use crate::setting::{Picture, Setting};
use crate::support::{Folder, bsdtar, gnu_tar, python, seed, succeed};

/// A folder with odd names, links, holes and modes.
fn make(root: &Path, random: &mut fastrand::Rng) {
    let long = format!("deep/{}/{}", "m".repeat(120), "n".repeat(200));
    for name in ["a", "b c", "ünïcode/ß", "-rf", "new\nline", "x/y/z", long.as_str()] {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = vec![0; random.usize(0..300_000)];
        random.fill(&mut bytes);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(if random.bool() { 0o640 } else { 0o755 })).unwrap();
    }
    fs::create_dir(root.join("empty")).unwrap();
    fs::hard_link(root.join("a"), root.join("x/hard")).unwrap();
    symlink("../a", root.join("x/soft")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    let sparse = fs::File::create(root.join("holes")).unwrap();
    sparse.write_all_at(b"start", 0).unwrap();
    sparse.write_all_at(&vec![7; 70_000], 1 << 20).unwrap();
    sparse.set_len(3 << 20).unwrap();
}

fn picture(root: &Path) -> Picture {
    let mut found = Picture::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let meta = fs::symlink_metadata(&path).unwrap();
            let mode = u16::try_from(meta.permissions().mode() & 0o777).ok();
            let fact = if meta.is_symlink() {
                ('l', None, fs::read_link(&path).unwrap().to_str().unwrap().into())
            } else if meta.is_dir() {
                todo.push(path.clone());
                ('d', mode, Vec::new())
            } else {
                ('f', mode, fs::read(&path).unwrap())
            };
            found.insert(name, fact);
        }
    }
    found
}

#[tokio::test]
async fn archives_of_other_programs_look_like_the_folders_they_were_made_of() {
    let mut random = fastrand::Rng::with_seed(seed());
    let scratch = Folder::new();
    let root = scratch.0.join("tree");
    fs::create_dir(&root).unwrap();
    make(&root, &mut random);
    let expected = picture(&root);
    let archive = scratch.0.join("x.tar");
    let file = archive.to_str().unwrap();
    let mut commands: Vec<(&str, Vec<&str>)> = Vec::new();
    if let Some(tar) = gnu_tar() {
        for format in ["gnu", "pax", "oldgnu"] {
            commands.push((tar, vec!["--format", format, "-cf", file, "."]));
            commands.push((tar, vec!["--format", format, "-S", "-cf", file, "."]));
        }
    }
    if let Some(tar) = bsdtar() {
        commands.push((tar, vec!["--format", "pax", "-cf", file, "."]));
        commands.push((tar, vec!["--format", "gnutar", "-cf", file, "."]));
    }
    if let Some(python) = python() {
        commands.push((python, vec!["-m", "tarfile", "-c", file, "."]));
    }
    assert!(!commands.is_empty(), "no program makes archives here");
    for (program, arguments) in commands {
        succeed(program, &arguments, &root);
        let setting = Setting::new();
        let (folder, contents) = setting.open(fs::read(&archive).unwrap()).await;
        let contents = contents.unwrap();

        let found = setting.picture(&folder, &contents).await;

        let names = |picture: &Picture| picture.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&found), names(&expected), "{program} {arguments:?}");
        for (name, fact) in &found {
            assert!(*fact == expected[name], "{program} {arguments:?}: {name}");
        }
        assert_eq!(contents.refused().0, 0);
    }
}

#[tokio::test]
async fn any_range_of_a_file_with_holes_has_its_bytes() {
    let Some(tar) = gnu_tar() else { return };
    let mut random = fastrand::Rng::with_seed(seed());
    let scratch = Folder::new();
    let sparse = fs::File::create(scratch.0.join("holes")).unwrap();
    for _ in 0..20 {
        let mut bytes = vec![0; random.usize(1..20_000)];
        random.fill(&mut bytes);
        sparse.write_all_at(&bytes, random.u64(0..4 << 20)).unwrap();
    }
    sparse.set_len(5 << 20).unwrap();
    let expected = fs::read(scratch.0.join("holes")).unwrap();
    for format in ["--sparse-version=0.0", "--sparse-version=0.1", "--sparse-version=1.0"] {
        succeed(tar, &["--format=pax", format, "-S", "-cf", "x.tar", "holes"], &scratch.0);
        let setting = Setting::new();
        let (folder, contents) = setting.open(fs::read(scratch.0.join("x.tar")).unwrap()).await;
        let contents = contents.unwrap();
        let node = contents.node(0).unwrap().child("holes").unwrap();
        assert_eq!(node.contiguous(), None);
        for _ in 0..300 {
            let (offset, len) = (random.u64(..6 << 20), random.u64(..100_000));
            let at = |offset: u64| usize::try_from(offset).unwrap().min(expected.len());
            let read = setting.read(&folder, &node, offset, len).await;
            assert!(read == expected[at(offset)..at(offset + len)], "{format}: {offset} + {len}");
        }
    }
}

#[tokio::test]
async fn inodes_are_those_of_members_and_the_same_in_another_process() {
    let tar = crate::raw::Tar::default().file("a/1", b"1").file("a/2", b"2").end();
    let numbers = async |setting: &Setting| {
        let (folder, contents) = setting.open(tar.clone()).await;
        let contents = contents.unwrap();
        let a = contents.node(0).unwrap().child("a").unwrap();
        let inodes: Vec<u64> = a.children(0).map(|node| folder.inode(node.number())).collect();
        let (found, node) = setting.folders.find(inodes[1]).unwrap();
        assert_eq!(found.object().version, folder.object().version);
        assert_eq!(contents.node(node).unwrap().name(), "2");
        inodes
    };
    let first = numbers(&Setting::new()).await;
    let second = numbers(&Setting::new()).await;

    assert_eq!(first, second);
    assert!(first.iter().all(|inode| inode & MEMBER_BIT != 0) && first[0] != first[1]);
    assert!(Setting::new().folders.find(first[0]).is_none(), "an archive that was not opened");
    assert!(Setting::new().folders.find(1).is_none());
}

#[tokio::test]
async fn a_directory_is_read_from_any_place() {
    let names: Vec<String> = (0..50).map(|number| format!("{number:02}")).collect();
    let tar = names.iter().rev().fold(crate::raw::Tar::default(), |tar, name| tar.file(name, b"x")).end();
    let setting = Setting::new();
    let contents = setting.open(tar).await.1.unwrap();
    let root = contents.node(0).unwrap();
    for from in [0, 1, 49, 50, 51, u32::MAX] {
        let found: Vec<_> = root.children(from).map(|node| node.name().to_owned()).collect();
        assert_eq!(found, names[names.len().min(from as usize)..]);
    }
    assert!(root.child("50").is_none() && root.child("").is_none());
}
