//! A bucket: families of objects that are counted, under a map of what clients wrote and deleted.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use md5::{Digest as _, Md5};

use super::checksum::{Algorithm, Value};
use super::content::Content;
use super::scenario::{BucketSpec, Family, RegionRefusal, mixed};

/// `ETag`s of counted objects that are remembered; then all are forgotten.
const MOST_CACHED: usize = 1 << 20;

/// An `ETag`: 16 bytes, and the number of parts unless the object was made in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Etag {
    pub(super) digest: [u8; 16],
    pub(super) parts: u32,
}

impl Etag {
    /// Returns the text, without quotes.
    pub(super) fn text(self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(38);
        for byte in self.digest {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        if self.parts > 0 {
            text.push('-');
            text.push_str(&self.parts.to_string());
        }
        text
    }

    /// Returns the `ETag` of an object made of parts with these digests.
    pub(super) fn composite(digests: impl Iterator<Item = [u8; 16]>) -> Self {
        let (mut all, mut parts) = (Md5::new(), 0);
        for digest in digests {
            all.update(digest);
            parts += 1;
        }
        Self { digest: all.finalize().into(), parts }
    }
}

/// The checksum that is kept for an object.
#[derive(Debug, Clone)]
pub(super) enum Sum {
    None,
    /// Checksum over the full object, computed from its extents when it is requested.
    Full(Algorithm),
    /// Checksum that was computed when the object was made.
    Fixed(Arc<FixedSum>),
}

/// See [`Sum::Fixed`].
#[derive(Debug)]
pub(super) struct FixedSum {
    pub(super) value: Value,
    /// The parts' own, of a composite one; else empty.
    pub(super) parts: Vec<Value>,
}

impl FixedSum {
    pub(super) fn text(&self) -> String {
        let value = self.value.base64();
        if self.parts.is_empty() { value } else { format!("{value}-{}", self.parts.len()) }
    }
}

/// Part layout of an object's upload.
#[derive(Debug, Clone)]
pub(super) enum Layout {
    Single,
    /// All parts but the last of this size.
    Uniform(u64),
    /// Sizes of the parts.
    Listed(Arc<[u64]>),
}

impl Layout {
    pub(super) fn of(sizes: &[u64]) -> Self {
        match sizes {
            [first, rest @ ..] => match rest.split_last() {
                None => Self::Uniform((*first).max(1)),
                Some((last, middle)) if middle.iter().all(|size| size == first) && last <= first && *last > 0 => {
                    Self::Uniform(*first)
                }
                Some(_) => Self::Listed(sizes.into()),
            },
            [] => Self::Single,
        }
    }

    /// Number of parts; None when the object was uploaded in one request.
    pub(super) fn parts(&self, size: u64) -> Option<u64> {
        match self {
            Self::Single => None,
            Self::Uniform(part) => Some(size.div_ceil(*part).max(1)),
            Self::Listed(sizes) => Some(sizes.len() as u64),
        }
    }

    /// Offset and length of part `number`, counted from 1.
    pub(super) fn part(&self, size: u64, number: u64) -> Option<(u64, u64)> {
        let index = number.checked_sub(1)?;
        match self {
            Self::Single => (index == 0).then_some((0, size)),
            Self::Uniform(part) => {
                let offset = index.checked_mul(*part)?;
                (index == 0 || offset < size).then(|| (offset, (*part).min(size - offset)))
            }
            Self::Listed(sizes) => {
                let index = usize::try_from(index).ok()?;
                Some((sizes.get(..index)?.iter().sum(), *sizes.get(index)?))
            }
        }
    }
}

/// Properties of an object beside its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    /// Content headers and user metadata, as headers.
    pub(super) headers: Vec<(String, String)>,
    pub(super) tags: Vec<(String, String)>,
    pub(super) storage_class: Option<String>,
    pub(super) kms_key: Option<String>,
}

impl Attributes {
    pub(super) fn is_archived(&self) -> bool {
        matches!(self.storage_class.as_deref(), Some("GLACIER" | "DEEP_ARCHIVE"))
    }
}

/// An object. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) content: Content,
    pub(super) etag: Etag,
    pub(super) sum: Sum,
    pub(super) layout: Layout,
    /// Milliseconds since 1970.
    pub(super) modified: u64,
    pub(super) attributes: Arc<Attributes>,
}

impl Object {
    pub(super) fn modified(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.modified)
    }
}

/// Families and what lies over them.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) region: String,
    pub(super) elsewhere: RegionRefusal,
    pub(super) created: SystemTime,
    families: Vec<(Family, Arc<Attributes>)>,
    /// Written objects by key. None: deleted, hides an object of the key pattern.
    written: BTreeMap<Box<str>, Option<Object>>,
    written_count: u64,
    cache: HashMap<(usize, u64), [u8; 16]>,
    md5_limit: u64,
}

/// An object on a page of a listing.
pub(super) struct PageObject {
    pub(super) key: String,
    pub(super) size: u64,
    pub(super) etag: Etag,
    pub(super) modified: SystemTime,
    pub(super) attributes: Arc<Attributes>,
    pub(super) sum: Sum,
}

/// Position at which a listing continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Position {
    /// Position after this key.
    AfterKey(String),
    /// Position after all keys with this prefix.
    AfterPrefix(String),
}

/// A page of a listing.
#[derive(Default)]
pub(super) struct Page {
    pub(super) objects: Vec<PageObject>,
    pub(super) prefixes: Vec<String>,
    /// The last of both; where the next page begins, when there is one.
    pub(super) next: Option<Position>,
}

/// The least text above all that begin with `prefix`; None when there is none.
fn above(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        if let Some(next) = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32) {
            text.push(next);
            return Some(text);
        }
    }
    None
}

impl Bucket {
    pub(super) fn new(spec: &BucketSpec, region: &str, seed: u64, md5_limit: u64) -> Result<Self, String> {
        let name_seed = spec.name.bytes().fold(seed, |seed, byte| mixed(seed, u64::from(byte)));
        let mut families = Vec::new();
        for (number, objects) in (0..).zip(&spec.objects) {
            let family = Family::new(objects, mixed(name_seed, number))
                .map_err(|problem| format!("bucket {}: {problem}", spec.name))?;
            let content_type = objects.content_type.iter().map(|value| ("content-type".to_owned(), value.clone()));
            let metadata = objects.metadata.iter().map(|(name, value)| (format!("x-amz-meta-{name}"), value.clone()));
            let attributes = Attributes {
                headers: content_type.chain(metadata).collect(),
                tags: objects.tags.clone().into_iter().collect(),
                storage_class: objects.storage_class.clone(),
                kms_key: objects.kms_key.clone(),
            };
            families.push((family, Arc::new(attributes)));
        }
        Ok(Self {
            region: spec.region.clone().unwrap_or_else(|| region.to_owned()),
            elsewhere: spec.elsewhere,
            created: UNIX_EPOCH + Duration::from_hours(490_896),
            families,
            written: BTreeMap::new(),
            written_count: 0,
            cache: HashMap::new(),
            md5_limit,
        })
    }

    pub(super) fn get(&mut self, key: &str) -> Option<Object> {
        if let Some(written) = self.written.get(key) {
            return written.clone();
        }
        let (family, index) = self.counted(key)?;
        Some(self.make(family, index))
    }

    /// The size alone, without an `ETag` that may have to be computed.
    pub(super) fn size(&self, key: &str) -> Option<u64> {
        match self.written.get(key) {
            Some(written) => written.as_ref().map(|object| object.content.length()),
            None => self.counted(key).map(|(family, index)| self.families[family].0.sizes.size(index)),
        }
    }

    fn counted(&self, key: &str) -> Option<(usize, u64)> {
        self.families.iter().enumerate().find_map(|(number, (family, _))| Some((number, family.pattern.index(key)?)))
    }

    fn make(&mut self, number: usize, index: u64) -> Object {
        let (family, attributes) = &self.families[number];
        let attributes = Arc::clone(attributes);
        let size = family.sizes.size(index);
        let content = Content::stream(mixed(family.seed, index), 0, size);
        let in_parts = family.part_size > 0 && size > family.part_size;
        let layout = if in_parts { Layout::Uniform(family.part_size) } else { Layout::Single };
        let sum = family.checksum.map_or(Sum::None, Sum::Full);
        let modified = 1_767_225_600_000 + index % 86_400_000;
        let etag = self.etag(number, index, &content, &layout);
        Object { content, etag, sum, layout, modified, attributes }
    }

    fn etag(&mut self, number: usize, index: u64, content: &Content, layout: &Layout) -> Etag {
        /// Less is computed as fast as found.
        const CHEAP: u64 = 16 << 10;
        let size = content.length();
        let parts = layout.parts(size).map_or(0, |parts| u32::try_from(parts).unwrap_or(u32::MAX));
        let true_md5 = parts == 0 && self.families[number].0.true_etags && size <= self.md5_limit;
        let cached = parts > 0 || true_md5 && size > CHEAP;
        if let Some(digest) = self.cache.get(&(number, index)).filter(|_| cached) {
            return Etag { digest: *digest, parts };
        }
        let digest = match layout {
            Layout::Uniform(part_size) => {
                let part = |part: u64| content.range(part * part_size, *part_size).opaque_digest();
                Etag::composite((0..u64::from(parts)).map(part)).digest
            }
            _ if true_md5 => content.md5().unwrap_or_else(|_| content.opaque_digest()),
            _ => content.opaque_digest(),
        };
        if cached {
            if self.cache.len() >= MOST_CACHED {
                self.cache.clear();
            }
            self.cache.insert((number, index), digest);
        }
        Etag { digest, parts }
    }

    /// Writes an object; gives back the one that it takes the place of, unless that was a counted one.
    pub(super) fn put(&mut self, key: &str, object: Object) -> Option<Object> {
        let before = match self.written.get_mut(key) {
            Some(slot) => slot.replace(object),
            None => self.written.insert(key.into(), Some(object)).flatten(),
        };
        self.written_count += u64::from(before.is_none());
        before
    }

    pub(super) fn delete(&mut self, key: &str) {
        let counted = self.counted(key).is_some();
        let before = if counted { self.written.insert(key.into(), None) } else { self.written.remove(key) };
        self.written_count -= u64::from(before.flatten().is_some());
    }

    /// Objects that clients wrote and that are still there.
    pub(super) fn written(&self) -> u64 {
        self.written_count
    }

    pub(super) fn is_empty(&mut self) -> bool {
        self.list("", None, None, 1).objects.is_empty()
    }

    /// Lists at most `most` objects and groups of objects, in order. The cost grows with the page and not with the
    /// bucket.
    pub(super) fn list(
        &mut self,
        prefix: &str,
        delimiter: Option<&str>,
        after: Option<&Position>,
        most: usize,
    ) -> Page {
        let mut page = Page::default();
        if most == 0 {
            return page;
        }
        // The first text that may be listed.
        let from = match after {
            Some(Position::AfterKey(key)) if key.as_str() >= prefix => format!("{key}\0"),
            Some(Position::AfterPrefix(group)) => match above(group) {
                Some(text) if text.as_str() > prefix => text,
                Some(_) => prefix.to_owned(),
                None => return page,
            },
            _ => prefix.to_owned(),
        };
        let mut cursors = Cursors::new(self, &from);
        let mut found = Vec::new();
        let mut last = None;
        while let Some((key, place)) = cursors.first() {
            if !key.starts_with(prefix) {
                break;
            }
            if found.len() + page.prefixes.len() == most {
                page.next = last;
                break;
            }
            let group = delimiter.and_then(|delimiter| {
                let at = key[prefix.len()..].find(delimiter)?;
                Some(key[..prefix.len() + at + delimiter.len()].to_owned())
            });
            if let Some(group) = group {
                last = Some(Position::AfterPrefix(group.clone()));
                let beyond = above(&group);
                page.prefixes.push(group);
                match beyond {
                    Some(beyond) => cursors.seek(&beyond),
                    None => break,
                }
            } else {
                last = Some(Position::AfterKey(key.to_owned()));
                found.push((key.to_owned(), place));
                cursors.step(place);
            }
        }
        for (key, place) in found {
            let object = match place {
                KeyRange::Written => self.written.get(key.as_str()).cloned().flatten(),
                KeyRange::Counted(family, index) => Some(self.make(family, index)),
            };
            if let Some(object) = object {
                page.objects.push(PageObject {
                    key,
                    size: object.content.length(),
                    etag: object.etag,
                    modified: object.modified(),
                    attributes: object.attributes,
                    sum: object.sum,
                });
            }
        }
        page
    }
}

/// Origin of an object in a listing: written by a client, or counted by a family.
#[derive(Debug, Clone, Copy)]
enum KeyRange {
    Written,
    Counted(usize, u64),
}

/// Readers of all families and of the written objects; the first object in order is taken.
struct Cursors<'a> {
    bucket: &'a Bucket,
    /// Next number and its key; spent when the number is the family's count.
    families: Vec<(u64, String)>,
    written: std::collections::btree_map::Range<'a, Box<str>, Option<Object>>,
    next_written: Option<(&'a str, bool)>,
}

impl<'a> Cursors<'a> {
    fn new(bucket: &'a Bucket, from: &str) -> Self {
        let families = vec![(0, String::new()); bucket.families.len()];
        let written = bucket.written.range::<str, _>((Bound::Unbounded, Bound::Unbounded));
        let mut cursors = Self { bucket, families, written, next_written: None };
        cursors.seek(from);
        cursors
    }

    fn seek(&mut self, from: &str) {
        for ((family, _), (index, key)) in self.bucket.families.iter().zip(&mut self.families) {
            if *index > 0 && key.as_str() >= from {
                continue;
            }
            *index = family.pattern.before(from);
            if *index < family.pattern.count() {
                family.pattern.write(*index, key);
            }
        }
        self.written = self.bucket.written.range::<str, _>((Bound::Included(from), Bound::Unbounded));
        self.take_written();
    }

    fn take_written(&mut self) {
        self.next_written = self.written.next().map(|(key, object)| (&**key, object.is_some()));
    }

    /// The first key that is there. Deleted and overwritten objects are skipped.
    fn first(&mut self) -> Option<(&str, KeyRange)> {
        loop {
            let mut least: Option<usize> = None;
            for (number, ((family, _), (index, key))) in self.bucket.families.iter().zip(&self.families).enumerate() {
                let left = *index < family.pattern.count();
                if left && least.is_none_or(|least| *key < self.families[least].1) {
                    least = Some(number);
                }
            }
            match (least, self.next_written) {
                (None, None) => return None,
                (Some(number), None) => return Some(self.counted(number)),
                (Some(number), Some((key, _))) if self.families[number].1.as_str() < key => {
                    return Some(self.counted(number));
                }
                (least, Some((key, there))) => {
                    // The same key in a family lies under this one.
                    if let Some(number) = least
                        && self.families[number].1 == key
                    {
                        self.advance(number);
                    } else if there {
                        return Some((key, KeyRange::Written));
                    } else {
                        self.take_written();
                    }
                }
            }
        }
    }

    fn counted(&self, number: usize) -> (&str, KeyRange) {
        let (index, key) = &self.families[number];
        (key, KeyRange::Counted(number, *index))
    }

    fn advance(&mut self, number: usize) {
        let (index, key) = &mut self.families[number];
        *index += 1;
        let pattern = &self.bucket.families[number].0.pattern;
        if *index < pattern.count() {
            pattern.write(*index, key);
        }
    }

    fn step(&mut self, place: KeyRange) {
        match place {
            KeyRange::Written => self.take_written(),
            KeyRange::Counted(number, _) => {
                // Two families may have the same key: the first one counts.
                let key = self.families[number].1.clone();
                for other in 0..self.families.len() {
                    let left = self.families[other].0 < self.bucket.families[other].0.pattern.count();
                    if left && self.families[other].1 == key {
                        self.advance(other);
                    }
                }
            }
        }
    }
}
