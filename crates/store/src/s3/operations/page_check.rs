//! Checks of a page of a listing: it must not contradict itself or its request.
//!
//! A contradictory page is not reliable: a cache, a gateway or a fault may have answered for another bucket, or dropped
//! entries. Such a page is an error, since listings decide on copies and removals. Every field that the service states
//! is compared. A field that it leaves out, or leaves empty, is not.
//!
//! Differences of real services are no contradictions: encoded and plain forms of one text are the same, counts may
//! leave out common prefixes, and keys may come in any order within a page. [`page_order`](super::page_order) compares
//! pages.

use std::borrow::Cow;

use crate::error::Result;
use crate::error::StoreError;
use crate::error::classify::code;
use crate::s3::encoding::decode_key;
use crate::s3::xml::Element;

/// Values of a page and its request that are compared.
#[derive(Debug, Default)]
pub(super) struct PageCheck<'a> {
    pub(super) operation: &'static str,
    pub(super) bucket: &'a str,
    /// Prefix that was requested, or the key of an upload.
    pub(super) prefix: &'a str,
    /// Largest number of entries that was requested.
    pub(super) max_keys: Option<i32>,
    /// Number of entries that came, without common prefixes.
    pub(super) entries: usize,
    /// Number of common prefixes that came.
    pub(super) common_prefixes: usize,
}

impl PageCheck<'_> {
    /// Error for a page that contradicts itself or its request.
    pub(super) fn contradiction(&self, what: &str) -> StoreError {
        StoreError::new(self.operation, self.bucket, Some(self.prefix).filter(|it| !it.is_empty()), CODE, Some(200))
            .with_message(format!("the page of the listing contradicts itself or its request: {what}"))
    }

    /// Checks the name of the bucket. Access points have several names, and Ceph puts the tenant before it.
    pub(super) fn check_bucket(&self, stated: Option<&str>) -> Result<()> {
        let has_aliases = self.bucket.contains(':') || self.bucket.ends_with("-s3alias");
        match stated.filter(|stated| !stated.is_empty() && !has_aliases && *stated != self.bucket) {
            Some(other) => Err(self.contradiction(&format!("it is of the bucket '{other}'"))),
            None => Ok(()),
        }
    }

    /// Checks a text that the service repeats from the request, plain or encoded.
    pub(super) fn check_echo(&self, name: &str, stated: Option<&str>, asked: Option<&str>) -> Result<()> {
        let Some(stated) = stated.filter(|stated| !stated.is_empty()) else { return Ok(()) };
        let asked = asked.unwrap_or_default();
        if equals_in_xml(stated, asked) || equals_in_xml(&decode_key(stated), asked) {
            return Ok(());
        }
        let was = if asked.is_empty() { "none was requested".to_owned() } else { format!("'{asked}' was requested") };
        Err(self.contradiction(&format!("its {name} is '{stated}', and {was}")))
    }

    /// Checks the number of entries that the page states, and the maximum that it states.
    pub(super) fn check_counts(&self, count: Option<i32>, maximum: Option<i32>) -> Result<()> {
        let came = self.entries + self.common_prefixes;
        if let Some(count) = count
            && ![came, self.entries].iter().any(|came| i64::try_from(*came) == Ok(i64::from(count)))
        {
            return Err(self.contradiction(&format!("it counts {count} entries and has {came}")));
        }
        let is_none_requested = self.max_keys == Some(0);
        if let Some(maximum) = maximum
            && (maximum <= 0 && !is_none_requested || i64::try_from(self.entries).is_ok_and(|n| n > i64::from(maximum)))
        {
            return Err(self.contradiction(&format!("it says it holds at most {maximum} entries, and has {came}")));
        }
        Ok(())
    }

    /// Checks that the page states whether it is truncated, and that it has a marker of the next page exactly if it is.
    /// `repeats`: the marker is the one of the request, with which the listing would never end.
    pub(super) fn check_truncation(&self, truncated: Option<bool>, next: Option<&str>, repeats: bool) -> Result<()> {
        match (truncated, next.filter(|next| !next.is_empty())) {
            (None, _) => Err(self.contradiction("it has no IsTruncated")),
            (Some(false), Some(_)) => Err(self.contradiction("it is not truncated, and has a marker for a next page")),
            (Some(true), None) => Err(self.contradiction("it is truncated, and has no marker for the next page")),
            (Some(true), Some(_)) if repeats => {
                Err(self.contradiction("its marker for the next page is that of its own request"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that each entry has a size.
    pub(super) fn check_sizes<'a>(&self, mut entries: impl Iterator<Item = &'a Element<'a>>) -> Result<()> {
        if entries.any(|entry| entry.value::<i64>("Size").is_none_or(|size| size < 0)) {
            return Err(self.contradiction("an entry has no size"));
        }
        Ok(())
    }

    /// Checks that the encoding of keys is the requested one, or none.
    pub(super) fn check_encoding(&self, stated: Option<&str>) -> Result<()> {
        match stated.filter(|stated| !stated.is_empty() && *stated != "url") {
            Some(other) => {
                Err(self.contradiction(&format!("its keys have the encoding '{other}', which was not requested")))
            }
            None => Ok(()),
        }
    }

    /// Checks that a key, or a common prefix, begins with the requested prefix.
    pub(super) fn check_key(&self, key: &str) -> Result<()> {
        if key.is_empty() {
            return Err(self.contradiction("an entry has no key"));
        }
        if key.starts_with(self.prefix) || starts_in_xml(key, self.prefix) || self.is_normalised(key) {
            return Ok(());
        }
        Err(self.contradiction(&format!("the key '{key}' does not begin with the prefix that was requested")))
    }

    /// True for a key of a service that normalises names: it answers for the prefix as it would write it. Such keys are
    /// left out of the listing later.
    fn is_normalised(&self, key: &str) -> bool {
        let normal = normalised(self.prefix);
        normal != self.prefix && key.starts_with(&*normal)
    }

    /// Checks that a common prefix ends in the requested delimiter, and has it once behind the prefix.
    pub(super) fn check_common_prefix(&self, group: &str, delimiter: Option<&str>) -> Result<()> {
        let Some(delimiter) = delimiter else {
            return Err(self.contradiction(&format!("it groups keys at '{group}', and no delimiter was requested")));
        };
        let Some(group_start) = group.strip_suffix(delimiter) else {
            return Err(self.contradiction(&format!("the common prefix '{group}' does not end in '{delimiter}'")));
        };
        self.check_one_level(group, group_start.strip_prefix(self.prefix), delimiter)
    }

    /// Checks that a key has no delimiter behind the prefix: it would be grouped. A service that ignores the delimiter
    /// lists all keys below a folder.
    pub(super) fn check_ungrouped(&self, key: &str, delimiter: Option<&str>) -> Result<()> {
        let Some(delimiter) = delimiter.filter(|delimiter| !delimiter.is_empty()) else { return Ok(()) };
        let rest = key.strip_prefix(self.prefix);
        // SeaweedFS lists some folders as objects.
        self.check_one_level(key, rest.map(|rest| rest.strip_suffix(delimiter).unwrap_or(rest)), delimiter)
    }

    /// `rest`: the text behind the prefix. None: the service has normalised it.
    fn check_one_level(&self, key: &str, rest: Option<&str>, delimiter: &str) -> Result<()> {
        match rest.filter(|rest| rest.contains(delimiter)) {
            Some(_) => Err(self.contradiction(&format!(
                "'{key}' has the delimiter '{delimiter}' behind the prefix that was requested: the service ignores it"
            ))),
            None => Ok(()),
        }
    }
}

const CODE: &str = code::CONTRADICTORY_LISTING;

/// True when a text of a document is `asked`, as far as XML can hold it: other characters come as U+FFFD, and a
/// carriage return comes as a line feed.
fn equals_in_xml(stated: &str, asked: &str) -> bool {
    stated == asked || stated.chars().count() == asked.chars().count() && starts_in_xml(stated, asked)
}

/// The same for the beginning of a text.
fn starts_in_xml(stated: &str, asked: &str) -> bool {
    let mut stated = stated.chars();
    asked.chars().all(|asked| match stated.next() {
        Some('\u{fffd}') => asked == '\u{fffd}' || asked < ' ' || matches!(asked, '\u{fffe}' | '\u{ffff}'),
        Some('\n') => matches!(asked, '\n' | '\r'),
        stated => stated == Some(asked),
    })
}

/// A name as services with folders write it: without empty, `.` and `..` segments.
fn normalised(name: &str) -> Cow<'_, str> {
    let is_plain = |segment: &str| !matches!(segment, "" | "." | "..");
    let (folders, last) = name.rsplit_once('/').map_or(("", name), |(folders, last)| (folders, last));
    if !name.contains('/') || folders.split('/').all(is_plain) && !matches!(last, "." | "..") {
        return Cow::Borrowed(name);
    }
    let mut kept: Vec<&str> = Vec::new();
    for segment in folders.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let mut normal = kept.join("/");
    if !kept.is_empty() {
        normal.push('/');
    }
    // The last segment may be the beginning of a longer one.
    if !matches!(last, "." | "..") {
        normal.push_str(last);
    }
    Cow::Owned(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared_as_far_as_xml_holds_them() {
        for (stated, asked, same) in [
            ("a\u{fffd}b", "a\u{1}b", true),
            ("a\u{fffd}b", "a\u{fffd}b", true),
            ("a\nb", "a\rb", true),
            ("a\u{fffd}b", "axb", false),
            ("a", "ab", false),
            ("ab", "a", false),
        ] {
            assert_eq!(equals_in_xml(stated, asked), same, "{stated:?} {asked:?}");
        }
    }

    #[test]
    fn only_names_with_odd_segments_are_normalised() {
        for (name, normal) in [
            ("", ""),
            ("run", "run"),
            ("run/a", "run/a"),
            ("run/", "run/"),
            ("..", ".."),
            ("p//", "p/"),
            ("p//q", "p/q"),
            ("/p/q", "p/q"),
            ("p/./q/../r", "p/r"),
            ("p/..", "p/"),
        ] {
            assert_eq!(normalised(name), normal, "{name}");
        }
    }
}
