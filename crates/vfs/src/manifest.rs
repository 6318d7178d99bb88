//! A view that a manifest fixes: names, sizes and versions come from a file, and only bytes from the service.
//!
//! The file holds one JSON object on each line, as `seqferry ls --recursive --json` prints them: `key`, `size`, `etag`
//! and, if known, `last_modified` and `storage_class`. No request lists objects. An object that the service no longer
//! has fails when it is read, as any replaced object does.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use seqferry_store::{
    Advice, ErrorClass, ListPage, ListRequest, ListedObject, ObjectMeta, ObjectRef, Range, StoreError,
};
use serde::Deserialize;

use crate::source::{RangeBody, Source, Urgency};
use crate::version::ObjectVersion;

/// Longest line: a key has at most 1,024 bytes, which JSON may write as six each.
const LONGEST_LINE: u64 = 64 << 10;

/// Objects in a page of a listing without a delimiter.
const PAGE: usize = 1000;

/// Error of a manifest that cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ManifestError {
    /// The file cannot be read.
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        cause: io::Error,
    },
    /// A line is not one of a manifest.
    ManifestLine {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Description of the problem.
        reason: String,
    },
    /// The manifest names no object below the prefix that is mounted.
    Empty {
        /// The file.
        path: PathBuf,
        /// The prefix.
        prefix: String,
    },
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, cause } => write!(f, "Cannot read the manifest {}: {cause}", path.display()),
            Self::ManifestLine { path, line, reason } => {
                write!(f, "Cannot use the manifest {}: line {line}: {reason}. {}", path.display(), Advice::MakeManifest)
            }
            Self::Empty { path, prefix } => write!(
                f,
                "The manifest {} names no object whose key starts with {prefix:?}. Name the prefix that it was made of.",
                path.display()
            ),
        }
    }
}

impl std::error::Error for ManifestError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

/// One line.
#[derive(Debug, Deserialize)]
struct ManifestLine {
    key: String,
    size: u64,
    etag: String,
    #[serde(default)]
    last_modified: ManifestTime,
    #[serde(default)]
    storage_class: Option<String>,
}

/// Seconds since the epoch, or a time in RFC 3339.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ManifestTime {
    Seconds(f64),
    Text(String),
    None(()),
}

impl Default for ManifestTime {
    fn default() -> Self {
        Self::None(())
    }
}

/// Attributes of an object that the manifest names.
#[derive(Debug)]
struct ManifestEntry {
    size: u64,
    etag: Box<str>,
    modified: f64,
    class: Option<Box<str>>,
}

/// The objects of a manifest, by key.
#[derive(Debug)]
pub struct Manifest(BTreeMap<Box<str>, ManifestEntry>);

impl Manifest {
    /// Read the objects whose key starts with `prefix`. Costs some 150 bytes of memory for each.
    ///
    /// # Errors
    /// When the file cannot be read, or a line is not one of a manifest.
    pub fn read(path: &Path, prefix: &str) -> Result<Self, ManifestError> {
        let io = |cause| ManifestError::Io { path: path.to_owned(), cause };
        let mut file = BufReader::new(File::open(path).map_err(io)?);
        let (mut objects, mut text, mut number) = (BTreeMap::new(), Vec::new(), 0);
        loop {
            text.clear();
            let read = io::Read::take(&mut file, LONGEST_LINE).read_until(b'\n', &mut text).map_err(io)?;
            if read == 0 {
                break;
            }
            number += 1;
            if text.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let bad = |reason: String| ManifestError::ManifestLine { path: path.to_owned(), line: number, reason };
            let line: ManifestLine = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
            if line.etag.is_empty() && line.size > 0 {
                return Err(bad("it has no ETag, so that its version is unknown".to_owned()));
            }
            if !line.key.starts_with(prefix) {
                continue;
            }
            let modified = match line.last_modified {
                ManifestTime::Seconds(seconds) => seconds,
                ManifestTime::Text(text) => rfc3339(&text).ok_or_else(|| bad(format!("{text:?} is no time")))?,
                ManifestTime::None(()) => 0.0,
            };
            let (etag, class) = (line.etag.into(), line.storage_class.map(Into::into));
            objects.insert(line.key.into(), ManifestEntry { size: line.size, etag, modified, class });
        }
        if objects.is_empty() {
            return Err(ManifestError::Empty { path: path.to_owned(), prefix: prefix.to_owned() });
        }
        Ok(Self(objects))
    }

    /// Objects that it names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true when the manifest names no object.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lists the manifest as the service would: a directory in one page, everything below a prefix in pages. The token
    /// of a page is its last key.
    fn list(&self, request: &ListRequest) -> ListPage {
        let mut page = ListPage::default();
        let all = if request.delimiter.is_some() { usize::MAX } else { PAGE };
        let most = request.max_keys.and_then(|most| usize::try_from(most).ok()).unwrap_or(all);
        let after = request.continuation.as_deref().or(request.start_after.as_deref()).unwrap_or_default();
        let mut from = if !after.is_empty() && after.as_bytes() >= request.prefix.as_bytes() {
            Bound::Excluded(Box::<str>::from(after))
        } else {
            Bound::Included(Box::<str>::from(request.prefix.as_str()))
        };
        while page.objects.len() + page.common_prefixes.len() < most {
            let Some((key, named)) = self.0.range((from, Bound::Unbounded)).next() else { break };
            let Some(rest) = key.strip_prefix(request.prefix.as_str()) else { break };
            let group =
                request.delimiter.as_deref().and_then(|delimiter| Some(rest.find(delimiter)? + delimiter.len()));
            from = if let Some(end) = group {
                // Past all keys of the group in one step.
                let group = &key[..request.prefix.len() + end];
                page.common_prefixes.push(group.to_owned());
                Bound::Excluded(format!("{group}\u{10FFFF}").into())
            } else {
                page.objects.push(ListedObject {
                    key: key.to_string(),
                    size: named.size,
                    etag: named.etag.to_string(),
                    last_modified: named.modified,
                    storage_class: named.class.as_deref().map(str::to_owned),
                    refusal: None,
                });
                Bound::Excluded(key.clone())
            };
        }
        if request.delimiter.is_none() && page.objects.len() == most {
            page.continuation = page.objects.last().map(|last| last.key.clone());
        }
        page
    }
}

/// Seconds since the epoch of `2026-11-24T02:10:16.123Z`, also with an offset.
fn rfc3339(text: &str) -> Option<f64> {
    let (date, time) = text.split_once(['T', ' '])?;
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i64>().ok()).flatten();
    let mut date = date.splitn(3, '-').map(number);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let split = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at(split);
    let mut clock = clock.splitn(3, ':');
    let (hour, minute) = (number(clock.next()?)?, number(clock.next()?)?);
    let second: f64 = clock.next()?.parse().ok().filter(|second: &f64| (0.0..61.0).contains(second))?;
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let (hours, minutes) = zone[1..].split_once(':')?;
            let minutes = number(hours)? * 60 + number(minutes)?;
            if zone.starts_with('-') { -minutes } else { minutes }
        }
    };
    if !((1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && (1..10_000).contains(&year))
    {
        return None;
    }
    // Days since 1970-01-01 of the proleptic Gregorian calendar, with years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(((days * 24 + hour) * 60 + minute - offset) as f64 * 60.0 + second)
}

/// A source whose listings are those of a manifest.
#[derive(Debug)]
pub struct ManifestSource {
    manifest: Manifest,
    bytes: Arc<dyn Source>,
}

impl ManifestSource {
    /// The objects of a manifest, whose bytes come from `bytes`.
    pub fn new(manifest: Manifest, bytes: Arc<dyn Source>) -> Self {
        Self { manifest, bytes }
    }
}

#[async_trait]
impl Source for ManifestSource {
    fn endpoint(&self) -> &str {
        self.bytes.endpoint()
    }

    fn max_bandwidth(&self) -> Option<u64> {
        self.bytes.max_bandwidth()
    }

    async fn list(&self, request: &ListRequest, _priority: Urgency) -> Result<ListPage, StoreError> {
        Ok(self.manifest.list(request))
    }

    async fn head(&self, object: ObjectRef<'_>) -> Result<ObjectMeta, StoreError> {
        match self.manifest.0.get(object.key) {
            Some(named) => {
                let found = match self.bytes.head(object).await {
                    Ok(found) => Some(found),
                    Err(error) if matches!(error.class, ErrorClass::Retry | ErrorClass::Throttle) => return Err(error),
                    Err(_) => None,
                };
                // A statement about another version, or an unreadable one, does not apply.
                let found = found.filter(|found| found.etag == *named.etag && found.size == named.size);
                Ok(ObjectMeta {
                    size: named.size,
                    etag: named.etag.to_string(),
                    last_modified: named.modified,
                    storage_class: named.class.as_deref().map(str::to_owned),
                    ..found.unwrap_or_default()
                })
            }
            None => Err(StoreError::new("HeadObject", object.bucket, Some(object.key), "NoSuchKey", Some(404))),
        }
    }

    async fn get(
        &self,
        version: &ObjectVersion,
        version_id: Option<&str>,
        range: Range,
        priority: Urgency,
    ) -> Result<RangeBody, StoreError> {
        self.bytes.get(version, version_id, range, priority).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(lines: &[&str], prefix: &str) -> Result<Manifest, ManifestError> {
        let path = std::env::temp_dir().join(format!("seqferry-manifest-{:016x}", fastrand::u64(..)));
        std::fs::write(&path, lines.join("\n")).unwrap();
        let read = Manifest::read(&path, prefix);
        std::fs::remove_file(&path).unwrap();
        read
    }

    fn line(key: &str) -> String {
        format!(
            r#"{{"type": "listed", "key": "{key}", "size": 5, "etag": "e", "last_modified": "2020-09-13T12:26:40.500Z"}}"#
        )
    }

    #[test]
    fn pages_are_those_of_the_service() {
        let keys = ["p/a", "p/b/c", "p/b/d", "p/b-", "p/e", "q/f"].map(line);
        let read = manifest(&keys.each_ref().map(String::as_str), "p/").unwrap();
        let request = ListRequest { prefix: "p/".into(), delimiter: Some("/".into()), ..ListRequest::default() };
        let names = |page: &ListPage| page.objects.iter().map(|object| object.key.clone()).collect::<Vec<_>>();

        let level = read.list(&request);
        assert_eq!(
            (names(&level), level.common_prefixes),
            (vec!["p/a".into(), "p/b-".into(), "p/e".into()], vec!["p/b/".into()])
        );
        let flat = read.list(&ListRequest { delimiter: None, start_after: Some("p/b-".into()), ..request.clone() });
        assert_eq!(names(&flat), ["p/b/c", "p/b/d", "p/e"]);
        assert_eq!(read.list(&ListRequest { max_keys: Some(1), ..request }).objects.len(), 1);
        assert!((level.objects[0].last_modified - 1_600_000_000.5).abs() < 1e-6);
        assert_eq!(read.len(), 5);
    }

    #[test]
    fn times_are_read_as_they_are_written() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0.0),
            ("2000-02-29T23:59:59Z", 951_868_799.0),
            ("2026-11-24T02:10:16+02:00", 1_795_479_016.0),
            ("1969-12-31T23:59:59Z", -1.0),
        ] {
            assert_eq!(rfc3339(text), Some(seconds), "{text}");
        }
        for bad in ["", "yesterday", "2026-13-01T00:00:00Z", "2026-11-24", "2026-11-24T02:10:16"] {
            assert_eq!(rfc3339(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_no_manifest_is_refused_with_its_line() {
        for (lines, said) in [
            (vec![line("a"), "x".into()], "line 2"),
            (vec![r#"{"key": "a", "size": 3, "etag": ""}"#.into()], "no ETag"),
            (vec![r#"{"key": "a", "size": -3, "etag": "e"}"#.into()], "line 1"),
            (vec![r#"{"key": "a", "size": 3, "etag": "e", "last_modified": "now"}"#.into()], "no time"),
            (vec![line("other")], "names no object"),
            (vec![], "names no object"),
        ] {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let error = manifest(&lines, "a").unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
