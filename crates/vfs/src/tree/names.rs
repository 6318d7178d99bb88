//! Keys that can be names of files, and why the others are hidden.
//!
//! A hidden key is never lost silently: each has a reason, and the tree counts and names them.

use std::fmt;

/// Longest name of a file, in bytes, that Linux can express.
pub const LONGEST_NAME: usize = 255;

/// Ending that rclone gives to objects that stand for symbolic links.
pub(crate) const RCLONE_LINK: &str = ".rclonelink";

/// Reason why a key is not shown as a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HiddenReason {
    /// Two slashes follow each other, or the key begins with one.
    EmptySegment,
    /// A segment is `.` or `..`.
    DotSegment,
    /// A segment has more than 255 bytes.
    NameTooLong,
    /// A NUL character.
    Nul,
    /// The key ends in a slash and the object has bytes.
    DirectoryWithBytes,
    /// A directory has the same name.
    ShadowedByDirectory,
    /// A file has the name that this link would have.
    ShadowedByFile,
}

impl fmt::Display for HiddenReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptySegment => "empty segment in the key",
            Self::DotSegment => "segment . or .. in the key",
            Self::NameTooLong => "segment of more than 255 bytes",
            Self::Nul => "NUL character in the key",
            Self::DirectoryWithBytes => "ends in a slash and has bytes",
            Self::ShadowedByDirectory => "a directory has the same name",
            Self::ShadowedByFile => "a file has the same name",
        })
    }
}

/// Checks that one segment of a key can be a file name.
pub fn check_name(segment: &str) -> Result<(), HiddenReason> {
    match segment {
        "" => Err(HiddenReason::EmptySegment),
        "." | ".." => Err(HiddenReason::DotSegment),
        long if long.len() > LONGEST_NAME => Err(HiddenReason::NameTooLong),
        nul if nul.contains('\0') => Err(HiddenReason::Nul),
        _ => Ok(()),
    }
}

/// A key that is not shown, or a prefix of such keys (it ends in a slash then).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenKey {
    /// The whole key or prefix.
    pub key: String,
    /// Reason why it is not shown.
    pub reason: HiddenReason,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_linux_can_express() {
        for good in ["a", "...", ".a", " ", "é", "a\\b", &"x".repeat(255)] {
            assert_eq!(check_name(good), Ok(()), "{good:?}");
        }
        for (bad, reason) in [
            ("", HiddenReason::EmptySegment),
            (".", HiddenReason::DotSegment),
            ("..", HiddenReason::DotSegment),
            ("a\0", HiddenReason::Nul),
            (&*"é".repeat(128), HiddenReason::NameTooLong),
        ] {
            assert_eq!(check_name(bad), Err(reason));
        }
    }
}
