//! Reasons to leave out one member while the rest of the archive stays readable.
//!
//! A refusal never puts the position of the next header in doubt; faults that do are
//! [`ArchiveFault`](crate::ArchiveFault)s and end the archive. Each reason has a stable word for receipts, JSON and
//! indexes.

use std::fmt;

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $text:literal;)*) => {
        /// Reason why a member is not listed, mounted or unpacked.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum MemberRefusal { $(#[doc = $text] $name,)* }

        impl MemberRefusal {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Stable lower-case word for receipts, JSON and indexes.
            pub fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// Stable code for failures of transfers, in the style of S3's.
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

refusals! {
    EmptyName = "empty_name", "the name is empty";
    NulInName = "nul_in_name", "the name or link target contains a NUL byte";
    AmbiguousName = "ambiguous_name", "the headers of the member give two different names or link targets";
    AmbiguousKind = "ambiguous_kind", "it is a folder by its name or mode, and a regular file by its type or contents";
    MalformedField = "malformed_field", "a header field (mode, owner, time or device) is not a number";
    Device = "device", "the member is a device";
    Fifo = "fifo", "the member is a FIFO";
    UnsupportedType = "unsupported_type", "the type of the member is not supported";
    SparseMap = "sparse_map", "the map of the sparse file contradicts its size or is malformed";
    SparseTooLarge = "sparse_too_large", "the map of the sparse file has more segments than the limit";
    AbsolutePath = "absolute_path", "the path is absolute";
    ParentComponent = "parent_component", "the path contains \"..\"";
    DriveOrUnc = "drive_or_unc", "the path begins with a drive letter or a UNC prefix";
    PathTooLong = "path_too_long", "the path is longer than the limit";
    ComponentTooLong = "component_too_long", "a component of the path is longer than 255 bytes";
    TooDeep = "too_deep", "the path has more components than the limit";
    RootNotDirectory = "root_not_directory", "the root of the tree is not a directory";
    Duplicate = "duplicate", "an earlier member has the same path";
    CaseCollision = "case_collision", "an earlier path differs only in upper and lower case";
    ParentNotDirectory = "parent_not_directory", "a parent of the path is a member that is not a directory";
    IsDirectory = "is_directory", "earlier members lie below the path, or it is a directory";
    LinkEmpty = "link_empty", "the link target is empty";
    LinkAbsolute = "link_absolute", "the link target is absolute";
    LinkEscapes = "link_escapes", "the link leads out of the tree";
    LinkTooLong = "link_too_long", "the link target is longer than the limit";
    LinkUnreadable = "link_unreadable", "the target of the link cannot be read or its checksum is wrong";
    LinkLoop = "link_loop", "the link passes through too many other links";
    LinkExcluded = "link_excluded", "symbolic links are excluded by the policy";
    HardLinkTarget = "hard_link_target", "the hard link names no earlier file or link of the archive";
    TotalTooLarge = "total_too_large", "the contents of all members exceed the limit";
    HolesTooLarge = "holes_too_large", "the holes of the sparse file exceed the limit";
    NameNotText = "name_not_text", "the name is not UTF-8, and keys are";
    Encrypted = "encrypted", "the member is encrypted";
    Compression = "compression", "the compression method of the member is not supported";
    TreeTooLarge = "tree_too_large", "the tree has more entries than the limit";
}

impl MemberRefusal {
    /// The refusal that has this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|refusal| refusal.word() == word)
    }
}

impl fmt::Display for MemberRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for MemberRefusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_distinct_and_found_again() {
        for refusal in MemberRefusal::ALL {
            assert_eq!(MemberRefusal::from_word(refusal.word()), Some(*refusal));
        }
        assert_eq!(MemberRefusal::from_word("other"), None);
    }

    #[test]
    fn codes_stand_in_receipts_and_keep_their_spelling() {
        assert_eq!(MemberRefusal::HardLinkTarget.code(), "HardLinkTarget");
        assert_eq!(MemberRefusal::DriveOrUnc.code(), "DriveOrUnc");
        let codes: std::collections::HashSet<_> = MemberRefusal::ALL.iter().map(|refusal| refusal.code()).collect();
        assert_eq!(codes.len(), MemberRefusal::ALL.len());
    }
}
