//! The corpus as GNU tar, bsdtar and Python read it, beside our reading.
//!
//! A member that we accept must be the same (name, size, order, bytes) for every program that reads the archive without
//! an error; what they read differently, we must have refused.

use std::collections::BTreeSet;
use std::thread;

use seqferry_archive::{Member, MemberKind};

use crate::corpus::cases;
use crate::support::{Contents, Folder, bsdtar, gnu_tar, python, run, sha256, strict};

/// Listing of an archive by one program: members as (name, size), and the SHA-256 of the contents of all regular
/// files, one behind the other.
#[derive(Debug, PartialEq, Eq)]
struct ArchiveListing {
    members: Vec<(String, u64)>,
    contents: String,
}

/// Names as all three programs can be made to print them.
fn ours(found: &Contents) -> ArchiveListing {
    let regular = found.iter().filter(|(member, _)| member.kind == MemberKind::File);
    let mut all = Vec::new();
    for (member, data) in regular {
        match &member.sparse {
            None => all.extend_from_slice(data),
            Some(map) => {
                let start = all.len();
                all.resize(start + usize::try_from(member.size).unwrap(), 0);
                let mut at = 0;
                for (offset, len) in &map.0 {
                    let (offset, len) = (usize::try_from(*offset).unwrap(), usize::try_from(*len).unwrap());
                    all[start + offset..start + offset + len].copy_from_slice(&data[at..at + len]);
                    at += len;
                }
            }
        }
    }
    // Of others the programs show what the header states, or nothing.
    let size = |member: &Member| if member.kind == MemberKind::File { member.size } else { 0 };
    let name = |name: &[u8]| String::from_utf8_lossy(name).trim_end_matches('/').to_owned();
    ArchiveListing {
        members: found.iter().map(|(member, _)| (name(&member.name), size(member))).collect(),
        contents: sha256(&all),
    }
}

const PYTHON: &str = r"
import hashlib, sys, tarfile
digest = hashlib.sha256()
with tarfile.open(sys.argv[1], 'r:') as tar:
    for member in tar:
        if member.type == b'V':
            continue
        if member.isreg():
            data = tar.extractfile(member).read()
            assert len(data) == member.size, 'short'
            digest.update(data)
        sys.stdout.buffer.write(b'%d %s\0' % (member.size if member.isreg() else 0, member.name.rstrip('/').replace('\0', '?').encode('utf-8', 'surrogateescape')))
sys.stdout.buffer.write(digest.hexdigest().encode())
";

fn by_python(program: &str, folder: &Folder) -> Option<ArchiveListing> {
    let output = run(program, &["-I", "-S", "-c", PYTHON, "x.tar"], &folder.0);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut fields: Vec<&str> = text.split('\0').collect();
    let contents = fields.pop()?.to_owned();
    let member = |field: &&str| {
        let (size, name) = field.split_once(' ').unwrap();
        (name.to_owned(), size.parse().unwrap())
    };
    output.status.success().then(|| ArchiveListing { members: fields.iter().map(member).collect(), contents })
}

/// Size and name from `-tv` lines: GNU has five columns before the name, bsdtar eight.
fn by_listing(program: &str, list: &[&str], columns: usize, size_at: usize, folder: &Folder) -> Option<ArchiveListing> {
    let listing = run(program, list, &folder.0);
    let extracted = run(program, &["-xOf", "x.tar"], &folder.0);
    // Warnings count as errors: "skipping to next header" exits with 0 in some versions.
    let clean = listing.status.success() && extracted.status.success() && listing.stderr.is_empty();
    let text = String::from_utf8_lossy(&listing.stdout).into_owned();
    let member = |line: &str| {
        let mut rest = line;
        let mut size = 0;
        for column in 0..columns {
            let (field, tail) = rest.trim_start().split_once(' ')?;
            if column == size_at && line.starts_with(['-', 'C']) {
                size = field.parse().unwrap_or(0);
            }
            rest = tail;
        }
        let name = rest.trim_start().split(" -> ").next()?.split(" link to ").next()?;
        Some((name.trim_end_matches('/').to_owned(), size))
    };
    // A label of a volume is no member.
    let members: Option<Vec<_>> = text.lines().filter(|line| !line.starts_with('V')).map(member).collect();
    Some(ArchiveListing { members: members?, contents: sha256(&extracted.stdout) }).filter(|_| clean)
}

/// Listings by all programs that are installed, at the same time: most of the test's time is their start.
fn readings(folder: &Folder) -> Vec<(&'static str, Option<ArchiveListing>)> {
    thread::scope(|scope| {
        let gnu = gnu_tar().map(|program| {
            let list = ["-tvf", "x.tar", "--full-time", "--quoting-style=literal", "-P"];
            ("GNU tar", scope.spawn(move || by_listing(program, &list, 5, 2, folder)))
        });
        let bsd = bsdtar()
            .map(|program| ("bsdtar", scope.spawn(move || by_listing(program, &["-tvPf", "x.tar"], 8, 4, folder))));
        let python = python().map(|program| ("Python", scope.spawn(move || by_python(program, folder))));
        let started = [gnu, bsd, python].into_iter().flatten();
        started.map(|(name, reading)| (name, reading.join().unwrap())).collect()
    })
}

#[test]
fn accepted_archives_are_the_same_for_every_other_reader() {
    let (mut compared, mut differing) = (0, BTreeSet::new());
    for case in cases() {
        let folder = Folder::new();
        folder.file("x.tar", &case.tar);
        let mut theirs = readings(&folder);
        // bsdtar -xO writes zeros for a hard link or a folder that states a size, and the names in a folder of GNU tar;
        // bsdtar -x makes the link or the folder.
        let states_size = ["hard link with size", "directory with size", "a folder with its names"];
        if states_size.iter().any(|name| case.name.starts_with(name)) {
            theirs.retain(|(program, _)| *program != "bsdtar");
        }
        let sound = |found: &Contents| found.iter().all(|(member, _)| member.refusal.is_none());
        let mine = strict(&case.tar).ok().filter(sound).map(|found| ours(&found));
        let read: Vec<&ArchiveListing> = theirs.iter().filter_map(|(_, reading)| reading.as_ref()).collect();
        if read.windows(2).any(|pair| pair[0] != pair[1]) {
            differing.insert(case.name);
            assert_eq!(mine, None, "{}: the others disagree and we accept it: {theirs:?}", case.name);
        }
        let Some(mine) = mine else { continue };
        for (program, reading) in &theirs {
            match reading {
                Some(reading) => assert_eq!(reading, &mine, "{}: {program} against ours", case.name),
                None => eprintln!("{}: {program} reads it with errors or warnings", case.name),
            }
        }
        compared += read.len();
    }
    eprintln!("{compared} readings compared; other readers disagree about {differing:?}, which we refuse");
    assert!(compared > 0 || gnu_tar().is_none() && bsdtar().is_none() && python().is_none());
}
