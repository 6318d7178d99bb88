//! Reading whole archives in all ways, temporary folders, and other programs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use seqferry_archive::scan::ScanSummary;
use seqferry_archive::{ArchiveError, ArchiveEvent, Member, ReadOptions, ScanStep, Scanner, StreamReader};
use sha2::{Digest as _, Sha256};

pub(crate) type Contents = Vec<(Member, Vec<u8>)>;

/// All members with their stored bytes, from chunks of this size.
pub(crate) fn stream(
    tar: &[u8],
    chunk: usize,
    size: Option<u64>,
    options: &ReadOptions,
) -> Result<(Contents, ScanSummary), ArchiveError> {
    let mut reader = StreamReader::new(size, options.clone());
    let mut found: Contents = Vec::new();
    let mut complete = 0;
    let mut take = |event: ArchiveEvent<'_>| match event {
        ArchiveEvent::Member(member) => found.push((*member, Vec::new())),
        ArchiveEvent::Data { offset, bytes } => {
            let (member, data) = found.last_mut().unwrap();
            assert_eq!(offset, member.data_offset + data.len() as u64);
            data.extend_from_slice(bytes);
        }
        ArchiveEvent::MemberEnd => complete += 1,
        ArchiveEvent::End(_) => {}
    };
    for mut bytes in tar.chunks(chunk) {
        while let Some(event) = reader.next(&mut bytes)? {
            if matches!(event, ArchiveEvent::End(_)) {
                break;
            }
            take(event);
        }
    }
    while let Some(event) = reader.next(&mut [].as_slice())? {
        if matches!(event, ArchiveEvent::End(_)) {
            break;
        }
        take(event);
    }
    let summary = reader.finish()?;
    assert_eq!(complete, found.len());
    Ok((found, summary))
}

/// All members with their stored bytes, by hopping with reads of exactly what is needed.
pub(crate) fn hop(tar: &[u8], options: &ReadOptions) -> Result<(Contents, ScanSummary), ArchiveError> {
    let mut scanner = Scanner::new(Some(tar.len() as u64), options.clone());
    let mut found = Vec::new();
    loop {
        match scanner.step()? {
            ScanStep::Need { offset, len } => {
                let at = usize::try_from(offset).unwrap();
                assert!(at + len <= tar.len(), "the scanner asks for bytes beyond the archive");
                assert_eq!(scanner.supply(offset, &tar[at..at + len]), len);
            }
            ScanStep::Member(member) => {
                let at = usize::try_from(member.data_offset).unwrap();
                let data = tar[at..at + usize::try_from(member.stored_size).unwrap()].to_vec();
                found.push((*member, data));
            }
            ScanStep::End(summary) => return Ok((found, summary)),
        }
    }
}

/// All members, read in every way; the ways must agree.
pub(crate) fn read(tar: &[u8], options: &ReadOptions) -> Result<Contents, ArchiveError> {
    let hopped = hop(tar, options);
    for (chunk, size) in [(1 << 20, None), (512, None), (700, Some(tar.len() as u64)), (13, None)] {
        let streamed = stream(tar, chunk, size, options);
        match (&hopped, &streamed) {
            (Ok((hops, end)), Ok((found, summary))) => {
                assert_eq!(end, summary);
                for ((hop, data), (member, bytes)) in hops.iter().zip(found) {
                    assert_eq!(hop, member);
                    // Contents of a member with a refused map are not handed out whole.
                    assert!(data == bytes || member.refusal.is_some(), "{}", member.display_name());
                }
                assert_eq!(hops.len(), found.len());
            }
            (Err(_), Err(_)) => {}
            (Ok((hops, _)), Err(error)) => panic!("{} members by hops, and {error} in chunks of {chunk}", hops.len()),
            (Err(error), Ok((found, _))) => panic!("{} members in chunks of {chunk}, and {error} by hops", found.len()),
        }
    }
    hopped.map(|(found, _)| found)
}

pub(crate) fn strict(tar: &[u8]) -> Result<Contents, ArchiveError> {
    read(tar, &ReadOptions::default())
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A folder that is removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("seqferry-archive-{:016x}", fastrand::u64(..)));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The first of these programs that is installed. Without one the test is skipped; it fails where all tools are
/// required.
pub(crate) fn program(names: &[&'static str], hint: &str, works: impl Fn(&str) -> bool) -> Option<&'static str> {
    if let Some(name) = names.iter().copied().find(|name| works(name)) {
        return Some(name);
    }
    let message = format!("none of {names:?} is installed: {hint}");
    #[expect(clippy::disallowed_methods, reason = "the entry point of a test")]
    let required = std::env::var("SEQFERRY_REQUIRE_SERVERS").is_ok_and(|value| value == "1");
    assert!(!required, "{message}");
    eprintln!("SKIPPED: {message}");
    None
}

fn says(name: &str, word: &str) -> bool {
    let output = Command::new(name).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(word))
}

pub(crate) fn gnu_tar() -> Option<&'static str> {
    program(&["tar", "gtar"], "GNU tar (Debian: apt-get install tar)", |name| says(name, "GNU tar"))
}

pub(crate) fn bsdtar() -> Option<&'static str> {
    program(&["bsdtar"], "bsdtar (Debian: apt-get install libarchive-tools)", |name| says(name, "bsdtar"))
}

pub(crate) fn python() -> Option<&'static str> {
    program(&["python3"], "Python 3 (Debian: apt-get install python3)", |name| says(name, "Python 3"))
}

pub(crate) fn run(program: &str, arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
    command.output().unwrap()
}

pub(crate) fn succeed(program: &str, arguments: &[&str], folder: &Path) -> Vec<u8> {
    let output = run(program, arguments, folder);
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A seed that is printed, and that `SEQFERRY_TEST_SEED` sets.
pub(crate) fn seed() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the entry point of a test")]
    let wanted = std::env::var("SEQFERRY_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = wanted.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("SEQFERRY_TEST_SEED={seed}");
    seed
}
