//! Properties of the objects that a share writes, besides their bytes and the facts of their files.

use seqferry_patterns::wildcard::{Dialect, Wildcard};
use seqferry_store::WriteOptions;
use seqferry_transfer::Properties;

/// Properties of objects, as of a transfer, and their storage classes.
#[derive(Debug, Clone, Default)]
pub struct ObjectProperties {
    /// Encryption, access and tags. Tags are for objects that have none.
    pub properties: Properties,
    /// Storage classes by patterns for names without their folders. The first that matches counts; none: the bucket's
    /// default.
    pub storage_classes: Vec<(String, String)>,
}

impl ObjectProperties {
    /// Encryption and access of a new object.
    pub(crate) fn write_options(&self) -> WriteOptions {
        self.properties.explicit_options()
    }

    /// The storage class of a file at this path.
    pub(crate) fn storage_class(&self, path: &str) -> Option<String> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let matches =
            |pattern: &str| Wildcard::new(pattern, Dialect::Rule).is_some_and(|pattern| pattern.matches(name));
        self.storage_classes.iter().find(|(pattern, _)| matches(pattern)).map(|(_, class)| class.clone())
    }

    /// The tags of an object: those that it has, or else those of the share.
    pub(crate) fn tags(&self, kept: Vec<(String, String)>) -> Vec<(String, String)> {
        if kept.is_empty() { self.properties.tags.clone().unwrap_or_default() } else { kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pattern_that_matches_the_name_gives_the_class() {
        let rules = [("*.bam", "GLACIER_IR"), ("run*", "STANDARD_IA"), ("*", "INTELLIGENT_TIERING")];
        let rules = rules.map(|(pattern, class)| (pattern.to_owned(), class.to_owned()));
        let properties = ObjectProperties { storage_classes: rules[..2].to_vec(), ..ObjectProperties::default() };
        for (path, class) in [
            ("a/run.bam", Some("GLACIER_IR")),
            ("run1", Some("STANDARD_IA")),
            ("run1/other", None),
            ("x.bam.bai", None),
        ] {
            assert_eq!(properties.storage_class(path).as_deref(), class, "{path}");
        }
        let all = ObjectProperties { storage_classes: rules.to_vec(), ..ObjectProperties::default() };
        assert_eq!(all.storage_class("run1/other").as_deref(), Some("INTELLIGENT_TIERING"));
    }
}
