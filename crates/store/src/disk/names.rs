//! Keys as paths below a folder, and the names of our own unfinished files.
//!
//! The rule: a key is a path when each of its segments between `/` is a valid name of a file. Every other key is
//! refused, never altered: an altered name could collide with another object's. A final `/` means a folder.
//!
//! Unfinished files lie in the folder of the final file (so that a rename finishes them), and are named
//! `.seqferry-<32 hexadecimal digits>.<tmp|part|parts>`. Such names are never listed, and no object may have one.

use std::hash::{BuildHasher as _, Hasher as _};

use super::disk_failure::{DiskFailure, Result};
use crate::error::StoreError;
use crate::error::classify::code;

/// The longest name that Linux file systems have, in bytes.
const NAME_MAX: usize = 255;

const PREFIX: &str = ".seqferry-";

/// A key as a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DiskPath<'a> {
    /// Folders from the root down.
    pub(super) folders: Vec<&'a str>,
    /// The file's name; None for a key that ends in `/`.
    pub(super) name: Option<&'a str>,
}

/// Read a key as a path.
pub(super) fn path_of_key(key: &str) -> Result<DiskPath<'_>> {
    if key.contains('\0') {
        return Err(DiskFailure::new(code::NUL_IN_KEY, "the key holds a NUL"));
    }
    let (path, is_folder) = key.strip_suffix('/').map_or((key, false), |path| (path, true));
    let mut folders = Vec::new();
    for name in path.split('/') {
        match name {
            "" => return Err(DiskFailure::new(code::EMPTY_SEGMENT, "the key begins with '/', holds '//' or is empty")),
            "." | ".." => {
                return Err(DiskFailure::new(code::DOT_SEGMENT, format!("the key holds the segment '{name}'")));
            }
            _ if name.len() > NAME_MAX => {
                let message = format!("a segment of the key has {} bytes, a name at most {NAME_MAX}", name.len());
                return Err(DiskFailure::new(code::NAME_TOO_LONG, message));
            }
            _ if is_unfinished_file(name.as_bytes()) => {
                return Err(DiskFailure::new(code::RESERVED_NAME, format!("{name} is the name of an unfinished file")));
            }
            _ => folders.push(name),
        }
    }
    let name = if is_folder { None } else { folders.pop() };
    Ok(DiskPath { folders, name })
}

/// Returns the reason why no file below a folder can have this key: code, and cause with advice. None: a file can.
/// Obstacles on the disk itself (a file where a folder is needed) show when the file is written.
pub fn path_refusal(key: &str, size: u64) -> Option<(&'static str, String)> {
    let fail = match path_of_key(key) {
        Ok(place) if place.name.is_none() && size > 0 => DiskFailure::new(
            code::FOLDER_WITH_BYTES,
            "a key with a last '/' is a folder, which holds no bytes of its own",
        ),
        Ok(_) => return None,
        Err(fail) => fail,
    };
    let advice = StoreError::new("PutObject", "", Some(key), fail.code, None).advice();
    Some((fail.code, format!("{}. {advice}", fail.message)))
}

/// Purpose of an unfinished file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilePurpose {
    /// A file that one request writes; useless once its writer is gone.
    Whole,
    /// The bytes of a multipart upload.
    Parts,
    /// The record of those parts.
    Record,
}

impl FilePurpose {
    pub(super) fn name(self, id: &str) -> String {
        let suffix = match self {
            Self::Whole => "tmp",
            Self::Parts => "part",
            Self::Record => "parts",
        };
        format!("{PREFIX}{id}.{suffix}")
    }

    /// Parses the name of an unfinished file into its purpose and id. None: a name of another form.
    pub(super) fn read(name: &[u8]) -> Option<(Self, &str)> {
        let rest = std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?;
        let (id, suffix) = rest.split_once('.')?;
        let kind = match suffix {
            "tmp" => Self::Whole,
            "part" => Self::Parts,
            "parts" => Self::Record,
            _ => return None,
        };
        is_id(id).then_some((kind, id))
    }
}

pub(super) fn is_unfinished_file(name: &[u8]) -> bool {
    FilePurpose::read(name).is_some()
}

/// True for 32 lower-case hexadecimal digits, the form of an upload id. No other text gets into a path.
pub(super) fn is_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Returns an id that no other upload has.
pub(super) fn fresh_id() -> String {
    let random = |salt: u8| {
        // The hasher is keyed by the operating system's randomness for each id.
        let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
        hasher.write_u8(salt);
        hasher.write_u32(std::process::id());
        hasher.finish()
    };
    format!("{:016x}{:016x}", random(0), random(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_that_cannot_be_a_file_is_refused_before_anything_is_written() {
        let code_of = |key, size| path_refusal(key, size).map(|(code, _)| code);

        assert_eq!(code_of("a/b", 1), None);
        assert_eq!(code_of("a/", 0), None);
        assert_eq!(code_of("a/", 1), Some(code::FOLDER_WITH_BYTES));
        assert_eq!(code_of("a/../b", 0), Some(code::DOT_SEGMENT));
        let (_, reason) = path_refusal("a//b", 1).unwrap();
        assert!(reason.contains("'//'") && reason.contains("choose_key"), "{reason}");
    }

    #[test]
    fn keys_that_are_paths_are_taken_as_they_are() {
        let place_of = |key| path_of_key(key).map_err(|fail| fail.code).unwrap();

        assert_eq!(place_of("a"), DiskPath { folders: vec![], name: Some("a") });
        assert_eq!(place_of("a/b\\c/ d\n"), DiskPath { folders: vec!["a", "b\\c"], name: Some(" d\n") });
        assert_eq!(place_of("a/..b/..."), DiskPath { folders: vec!["a", "..b"], name: Some("...") });
        assert_eq!(place_of("a/b/"), DiskPath { folders: vec!["a", "b"], name: None });
    }

    #[test]
    fn keys_that_are_none_are_refused() {
        let long = "x".repeat(256);
        let ours = FilePurpose::Parts.name(&fresh_id());
        for (key, wanted) in [
            ("", code::EMPTY_SEGMENT),
            ("/", code::EMPTY_SEGMENT),
            ("/etc/passwd", code::EMPTY_SEGMENT),
            ("a//b", code::EMPTY_SEGMENT),
            ("a//", code::EMPTY_SEGMENT),
            (".", code::DOT_SEGMENT),
            ("../a", code::DOT_SEGMENT),
            ("a/../b", code::DOT_SEGMENT),
            ("a/./b", code::DOT_SEGMENT),
            ("a/..", code::DOT_SEGMENT),
            ("a/../", code::DOT_SEGMENT),
            ("a\0b", code::NUL_IN_KEY),
            (long.as_str(), code::NAME_TOO_LONG),
            (ours.as_str(), code::RESERVED_NAME),
        ] {
            assert_eq!(path_of_key(key).map_err(|fail| fail.code), Err(wanted), "{key:?}");
        }
    }

    #[test]
    fn our_own_names_are_known_and_others_are_not() {
        let id = fresh_id();
        for kind in [FilePurpose::Whole, FilePurpose::Parts, FilePurpose::Record] {
            assert_eq!(FilePurpose::read(kind.name(&id).as_bytes()), Some((kind, id.as_str())));
        }
        for name in [".seqferry-.tmp", ".seqferry-0123.tmp", "seqferry", ".seqferry-", &format!(".seqferry-{id}.bam")] {
            assert!(!is_unfinished_file(name.as_bytes()), "{name}");
        }
        assert_ne!(fresh_id(), fresh_id());
    }

    proptest! {
        #[test]
        fn a_place_is_the_key_again_and_never_leads_upwards(key in "[a./\\\\\u{0}\u{e9}]{0,12}") {
            if let Ok(place) = path_of_key(&key) {
                let names: Vec<&str> = place.folders.iter().copied().chain(place.name).collect();
                prop_assert!(names.iter().all(|name| !matches!(*name, "" | "." | "..") && !name.contains(['/', '\0'])));
                prop_assert_eq!(names.join("/") + if place.name.is_none() { "/" } else { "" }, key);
            }
        }
    }
}
