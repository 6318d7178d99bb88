//! Safe relative paths: what a member's name must be before it becomes a file, a key or a directory entry.

use std::fmt;

use crate::refusal::MemberRefusal;

/// Longest path in bytes: Linux' `PATH_MAX`. Keys of S3 are shorter (1,024).
pub const MAXIMUM_PATH: usize = 4096;
/// Longest component in bytes: `NAME_MAX` of all common file systems.
pub const MAXIMUM_COMPONENT: usize = 255;
/// Most components of a path. Deeper trees overflow stacks and `PATH_MAX` when they are joined to a target.
pub const MAXIMUM_DEPTH: usize = 512;

/// True where `C:` and `\\\\host` name other places than the folder they are opened in. Elsewhere a colon and a
/// backslash are characters of a name, as in the regions `X:1-1000.bed` and `chrX:1-5.vcf`.
pub(crate) const HAS_DRIVES: bool = cfg!(windows);

/// A relative path without `.`, `..`, empty components or NUL. On Windows it has no drive letter and no UNC prefix.
/// Empty: the root of the tree.
///
/// # Examples
///
/// ```
/// use seqferry_archive::{MemberPath, MemberRefusal};
///
/// let path = MemberPath::new(b"./run42//sample.bam/")?;
/// assert_eq!(path.as_bytes(), b"run42/sample.bam");
/// assert_eq!(MemberPath::new(b"../etc/passwd"), Err(MemberRefusal::ParentComponent));
/// assert_eq!(MemberPath::new(b"/etc/passwd"), Err(MemberRefusal::AbsolutePath));
/// # Ok::<(), MemberRefusal>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberPath(Vec<u8>);

impl MemberPath {
    /// Check and normalise a name: `.` components, repeated slashes and a last slash are dropped.
    pub fn new(name: &[u8]) -> Result<Self, MemberRefusal> {
        if name.is_empty() {
            return Err(MemberRefusal::EmptyName);
        }
        if name.contains(&0) {
            return Err(MemberRefusal::NulInName);
        }
        if name[0] == b'/' {
            return Err(MemberRefusal::AbsolutePath);
        }
        if HAS_DRIVES && is_elsewhere(name) {
            return Err(MemberRefusal::DriveOrUnc);
        }
        let mut path = Vec::with_capacity(name.len().min(MAXIMUM_PATH));
        for (depth, component) in
            name.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).enumerate()
        {
            if component == b".." {
                return Err(MemberRefusal::ParentComponent);
            }
            // With backslashes as separators this would climb on Windows, and nothing else is meant by it.
            if component.split(|byte| *byte == b'\\').any(|part| part == b"..") {
                return Err(MemberRefusal::ParentComponent);
            }
            if component.len() > MAXIMUM_COMPONENT {
                return Err(MemberRefusal::ComponentTooLong);
            }
            if depth >= MAXIMUM_DEPTH {
                return Err(MemberRefusal::TooDeep);
            }
            if depth > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(component);
            if path.len() > MAXIMUM_PATH {
                return Err(MemberRefusal::PathTooLong);
            }
        }
        // `./C:x` is as much a drive as `C:x` once the dot is dropped.
        if HAS_DRIVES && is_elsewhere(&path) {
            return Err(MemberRefusal::DriveOrUnc);
        }
        Ok(Self(path))
    }

    /// The path.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path as text; None where it is not UTF-8. S3 keys must be.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// True for the root of the tree.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Components from the root down.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
    }
}

impl fmt::Display for MemberPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// True for the drives and UNC prefixes of Windows.
pub(crate) fn is_elsewhere(name: &[u8]) -> bool {
    matches!(name, [letter, b':', ..] if letter.is_ascii_alphabetic()) || name.starts_with(b"\\\\")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_mean_other_places_are_refused() {
        let long = vec![b'a'; 256];
        let deep = b"a/".repeat(513);
        let many = [vec![b'b'; 250].as_slice(), b"/"].concat().repeat(17);
        let table: [(&[u8], MemberRefusal); 12] = [
            (b"", MemberRefusal::EmptyName),
            (b"a\0b", MemberRefusal::NulInName),
            (b"/a", MemberRefusal::AbsolutePath),
            (b"//a", MemberRefusal::AbsolutePath),
            (b"..", MemberRefusal::ParentComponent),
            (b"a/../../b", MemberRefusal::ParentComponent),
            (b"a/..", MemberRefusal::ParentComponent),
            (b"./..", MemberRefusal::ParentComponent),
            (b"a\\..\\b", MemberRefusal::ParentComponent),
            (&long, MemberRefusal::ComponentTooLong),
            (&deep, MemberRefusal::TooDeep),
            (&many, MemberRefusal::PathTooLong),
        ];

        for (name, refusal) in table {
            assert_eq!(MemberPath::new(name), Err(refusal), "{}", name.escape_ascii());
        }
    }

    #[test]
    fn odd_but_harmless_names_stay_as_they_are() {
        for name in ["...", "a..b", ".hidden", "a b", "a\\b", "ü/ß", "-rf", "run:1/x", "a\nb"] {
            assert_eq!(MemberPath::new(name.as_bytes()).unwrap().as_str(), Some(name));
        }
        assert!(MemberPath::new(b"./").unwrap().is_root());
        assert_eq!(MemberPath::new(b"\xff").unwrap().as_str(), None);
    }

    #[test]
    fn drives_and_shares_are_places_on_windows_only() {
        for (name, path) in [
            ("X:1-1000.bed", "X:1-1000.bed"),
            ("C:a", "C:a"),
            ("./c:/a", "c:/a"),
            ("\\\\host\\share", "\\\\host\\share"),
            (".//\\\\host", "\\\\host"),
        ] {
            let found = MemberPath::new(name.as_bytes());
            assert!(is_elsewhere(path.as_bytes()));
            if HAS_DRIVES {
                assert_eq!(found, Err(MemberRefusal::DriveOrUnc), "{name}");
            } else {
                assert_eq!(found.unwrap().as_str(), Some(path));
            }
        }
    }

    proptest! {
        #[test]
        fn an_accepted_path_stays_below_its_root(name in proptest::collection::vec(prop_oneof![Just(b'/'), Just(b'.'), Just(b'a'), any::<u8>()], 0..60)) {
            if let Ok(path) = MemberPath::new(&name) {
                for component in path.components() {
                    prop_assert!(!matches!(component, b"" | b"." | b".."));
                    prop_assert!(!component.contains(&0) && !component.contains(&b'/'));
                }
                if !path.is_root() {
                    prop_assert_eq!(MemberPath::new(path.as_bytes()), Ok(path.clone()));
                }
            }
        }
    }
}
