//! Round trips with GNU tar, bsdtar and Python on generated trees, both ways.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use seqferry_archive::write::{ArchiveEntry, EntryKind, Layout};
use seqferry_archive::{MemberKind, MemberPath, MemberTree, TreePolicy};

use crate::support::{Folder, bsdtar, gnu_tar, python, seed, strict, succeed};

/// Kind, mode, time and contents (or link target) by path.
type Picture = BTreeMap<String, (char, u32, i64, Vec<u8>)>;

fn picture(root: &Path) -> Picture {
    let mut found = Picture::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let meta = fs::symlink_metadata(&path).unwrap();
            let mode = meta.permissions().mode() & 0o777;
            let fact = if meta.is_symlink() {
                ('l', 0, 0, fs::read_link(&path).unwrap().to_str().unwrap().into())
            } else if meta.is_dir() {
                todo.push(path.clone());
                ('d', mode, 0, Vec::new())
            } else {
                ('f', mode, meta.mtime(), fs::read(&path).unwrap())
            };
            found.insert(name, fact);
        }
    }
    found
}

/// Entries of an odd but honest tree, with the contents of each file.
fn tree(random: &mut fastrand::Rng) -> (Vec<ArchiveEntry>, Vec<Vec<u8>>) {
    let long = format!("deep/{}", "n".repeat(120));
    let split = format!("{}/{}", ["p"; 60].join("/"), "q".repeat(90));
    let names = [
        "a",
        "b c",
        "ünïcode/ß",
        "-rf",
        "new\nline",
        "quo\"te",
        "back\\slash",
        &long,
        &split,
        "ze/ro",
        "x/y/z",
        "run:1",
    ];
    let (mut entries, mut contents) =
        (vec![ArchiveEntry::directory("empty"), ArchiveEntry::directory("dir/with/parents")], vec![vec![]; 2]);
    for name in names {
        let sizes = [0, 1, 511, 512, 513, random.usize(0..40_000)];
        let data: Vec<u8> = (0..sizes[random.usize(0..6)]).map(|_| random.u8(..)).collect();
        let mut entry = ArchiveEntry::file(name, data.len() as u64);
        entry.mode = [0o644, 0o600, 0o755][random.usize(0..3)];
        entry.mtime = random.i64(1..2_000_000_000);
        entries.push(entry);
        contents.push(data);
    }
    entries.push(ArchiveEntry::symbolic_link("dir/link", "../a"));
    entries.push(ArchiveEntry::symbolic_link("dir/langer-lïnk", format!("../deep/{}", "n".repeat(120))));
    // Python gives the file the mode and time of its last hard link.
    let file = entries.iter().find(|entry| entry.name == b"b c").unwrap();
    let hard = ArchiveEntry { mode: file.mode, mtime: file.mtime, ..ArchiveEntry::hard_link("hard", "b c") };
    entries.push(hard);
    contents.resize(entries.len(), Vec::new());
    (entries, contents)
}

fn pack(entries: &[ArchiveEntry], contents: &[Vec<u8>]) -> Vec<u8> {
    Layout::plan(entries).unwrap().assemble(|member| contents[member].clone())
}

/// The tree that our entries should make on a disk.
fn expected(entries: &[ArchiveEntry], contents: &[Vec<u8>]) -> Picture {
    let mut found = Picture::new();
    for (entry, data) in entries.iter().zip(contents) {
        let name = String::from_utf8(entry.name.clone()).unwrap();
        for (at, _) in name.match_indices('/') {
            found.entry(name[..at].to_owned()).or_insert(('d', 0o755, 0, Vec::new()));
        }
        let fact = match &entry.kind {
            EntryKind::File(_) => ('f', entry.mode, entry.mtime, data.clone()),
            EntryKind::Directory => ('d', entry.mode, 0, Vec::new()),
            EntryKind::SymbolicLink(target) => ('l', 0, 0, target.clone()),
            EntryKind::HardLink(target) => found[std::str::from_utf8(target).unwrap()].clone(),
        };
        found.insert(name, fact);
    }
    // The default mask of a user is not ours to choose: implied folders have any mode.
    found
}

fn without_folder_modes(mut picture: Picture) -> Picture {
    picture.values_mut().filter(|fact| fact.0 == 'd').for_each(|fact| fact.1 = 0);
    picture
}

fn ours_read_by(program: &str, arguments: &[&str]) {
    let mut random = fastrand::Rng::with_seed(seed());
    let (entries, contents) = tree(&mut random);
    let folder = Folder::new();
    folder.file("x.tar", &pack(&entries, &contents));
    fs::create_dir(folder.0.join("out")).unwrap();

    succeed(program, arguments, &folder.0.join("out"));

    let found = without_folder_modes(picture(&folder.0.join("out")));
    assert_eq!(found, without_folder_modes(expected(&entries, &contents)));
}

#[test]
fn gnu_tar_unpacks_our_archives() {
    if let Some(program) = gnu_tar() {
        ours_read_by(program, &["-xpf", "../x.tar"]);
    }
}

#[test]
fn bsdtar_unpacks_our_archives() {
    if let Some(program) = bsdtar() {
        ours_read_by(program, &["-xpf", "../x.tar"]);
    }
}

#[test]
fn python_unpacks_our_archives() {
    if let Some(program) = python() {
        ours_read_by(program, &["-c", "import tarfile; tarfile.open('../x.tar').extractall('.')"]);
    }
}

/// Pack a real tree with another program, and read it with ours.
fn theirs_read_by_us(program: &str, variants: &[&[&str]]) {
    let mut random = fastrand::Rng::with_seed(seed());
    let (entries, contents) = tree(&mut random);
    let folder = Folder::new();
    let root = folder.0.join("tree");
    for (entry, data) in entries.iter().zip(&contents) {
        let path = root.join(std::str::from_utf8(&entry.name).unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match &entry.kind {
            EntryKind::File(_) => {
                fs::write(&path, data).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(entry.mode)).unwrap();
            }
            EntryKind::Directory => fs::create_dir_all(&path).unwrap(),
            EntryKind::SymbolicLink(target) => {
                std::os::unix::fs::symlink(std::str::from_utf8(target).unwrap(), &path).unwrap();
            }
            EntryKind::HardLink(target) => {
                fs::hard_link(root.join(std::str::from_utf8(target).unwrap()), &path).unwrap();
            }
        }
    }
    let before = picture(&root);

    for arguments in variants {
        succeed(program, arguments, &root);
        let tar = fs::read(folder.0.join("x.tar")).unwrap();
        let found = strict(&tar).unwrap_or_else(|error| panic!("{program} {arguments:?}: {error}"));
        let mut names = MemberTree::new(TreePolicy::default());
        let mut after = Picture::new();
        for (at, (member, data)) in found.iter().enumerate() {
            names
                .admit(at as u64, member)
                .unwrap_or_else(|refusal| panic!("{arguments:?}: {}: {refusal}", member.display_name()));
            let name = MemberPath::new(&member.name).unwrap().to_string();
            let fact = match member.kind {
                MemberKind::File => ('f', member.mode, member.mtime, data.clone()),
                MemberKind::Directory => ('d', member.mode, 0, Vec::new()),
                MemberKind::SymbolicLink => ('l', 0, 0, member.link.clone()),
                MemberKind::HardLink => after[&MemberPath::new(&member.link).unwrap().to_string()].clone(),
                kind => panic!("{kind:?}"),
            };
            after.insert(name, fact);
        }
        after.remove("");
        assert_eq!(names.finish(), [], "{arguments:?}");
        assert_eq!(after, before, "{program} {arguments:?}");
    }
}

#[test]
fn archives_of_gnu_tar_are_read_in_all_its_formats() {
    if let Some(program) = gnu_tar() {
        theirs_read_by_us(
            program,
            &[
                &["-cf", "../x.tar", "--format=gnu", "."],
                &["-cf", "../x.tar", "--format=pax", "."],
                &["-cf", "../x.tar", "--format=posix", "--sort=name", "--pax-option=delete=atime,delete=ctime", "."],
                &["-cf", "../x.tar", "--format=oldgnu", "-b1", "."],
            ],
        );
    }
}

#[test]
fn archives_of_bsdtar_are_read_in_its_formats() {
    if let Some(program) = bsdtar() {
        theirs_read_by_us(
            program,
            &[&["-cf", "../x.tar", "--format=pax", "."], &["-cf", "../x.tar", "--format=gnutar", "."]],
        );
    }
}

#[test]
fn archives_of_python_are_read_in_its_formats() {
    if let Some(program) = python() {
        let script = |format: &str| {
            format!("import tarfile; t = tarfile.open('../x.tar', 'w', format=tarfile.{format}); t.add('.'); t.close()")
        };
        theirs_read_by_us(program, &[&["-c", &script("PAX_FORMAT")], &["-c", &script("GNU_FORMAT")]]);
    }
}

#[test]
fn sparse_files_of_gnu_tar_are_read_in_all_its_formats() {
    let Some(program) = gnu_tar() else { return };
    let folder = Folder::new();
    let mut whole = vec![0; 4 << 20];
    for at in 0..30 {
        whole[at * 131_072..at * 131_072 + 4096].fill(u8::try_from(at).unwrap() + 1);
    }
    // Written with holes, so that the map needs extension blocks in the GNU format.
    let file = fs::File::create(folder.0.join("sparse")).unwrap();
    file.set_len(whole.len() as u64).unwrap();
    for at in 0..30 {
        std::os::unix::fs::FileExt::write_all_at(&file, &whole[at * 131_072..at * 131_072 + 4096], at as u64 * 131_072)
            .unwrap();
    }
    let holes = fs::metadata(folder.0.join("sparse")).unwrap().blocks() * 512 < whole.len() as u64;
    folder.file("after", b"z");

    for format in ["--format=gnu", "--sparse-version=0.0", "--sparse-version=0.1", "--sparse-version=1.0"] {
        let posix = if format == "--format=gnu" { "--format=gnu" } else { "--format=posix" };
        succeed(program, &["-cSf", "x.tar", posix, format, "sparse", "after"], &folder.0);
        let found = strict(&fs::read(folder.0.join("x.tar")).unwrap()).unwrap();

        let (member, data) = &found[0];
        assert_eq!(
            (member.name.as_slice(), member.refusal, found[1].1.as_slice()),
            (b"sparse".as_slice(), None, b"z".as_slice())
        );
        let mut real = vec![0; usize::try_from(member.size).unwrap()];
        let (mut at, map) = (0, member.sparse.clone().unwrap_or_default().0);
        for (offset, len) in &map {
            let (offset, len) = (usize::try_from(*offset).unwrap(), usize::try_from(*len).unwrap());
            real[offset..offset + len].copy_from_slice(&data[at..at + len]);
            at += len;
        }
        assert!(!holes || map.len() == 30, "{format}: {} segments", map.len());
        assert_eq!(if holes { &real } else { data }, &whole, "{format}");
    }
}
