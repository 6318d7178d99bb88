//! Lists of patterns for names of files, as they are configured.

use std::collections::HashSet;

use seqferry_patterns::wildcard::{Dialect, Wildcard};

/// Characters that stand for others in a pattern.
const SPECIAL: [char; 3] = ['*', '?', '['];

/// Names of files that programs make for themselves: they stay on this machine.
pub(crate) const IGNORED: [&str; 6] = [".DS_Store", "._*", "Thumbs.db", "desktop.ini", ".nfs*", "~$*"];
/// Names of files that instruments write when a run is complete.
pub(crate) const MARKERS: [&str; 3] = ["RTAComplete.txt", "CopyComplete.txt", "final_summary*"];

/// Patterns for names without their folders: `*`, `?` and `[a-z]`. Most are a name or the start of one, which cost a
/// comparison.
#[derive(Debug, Default)]
pub(crate) struct NameList {
    names: HashSet<String>,
    starts: Vec<String>,
    others: Vec<Wildcard>,
}

impl NameList {
    /// The list of these patterns. One that is longer than any name matches none.
    pub(crate) fn new<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Self {
        let mut list = Self::default();
        for pattern in patterns {
            let pattern = pattern.as_ref();
            match pattern.split_once(SPECIAL) {
                None => drop(list.names.insert(pattern.to_owned())),
                Some((start, "")) if pattern.ends_with('*') => list.starts.push(start.to_owned()),
                Some(_) => list.others.extend(Wildcard::new(pattern, Dialect::Rule)),
            }
        }
        list
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        self.names.contains(name)
            || self.starts.iter().any(|start| name.starts_with(start.as_str()))
            || self.others.iter().any(|pattern| pattern.matches(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_starts_and_wildcards_match_whole_names() {
        let list = NameList::new(["Thumbs.db", "._*", "*.tmp", "run[0-9]?"]);

        for name in ["Thumbs.db", "._x", "._", "a.tmp", "run1a"] {
            assert!(list.matches(name), "{name}");
        }
        for name in ["thumbs.db", "Thumbs.db2", "x._", "a.tmp2", "runs1", ""] {
            assert!(!list.matches(name), "{name}");
        }
        assert!(!NameList::default().matches(""));
        assert!(NameList::new(["*"]).matches("anything"));
    }
}
