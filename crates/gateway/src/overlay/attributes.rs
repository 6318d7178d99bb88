//! Extended attributes of files. They stay on this machine: the bucket never has them. A file that leaves the overlay
//! keeps them, by its number.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Bytes of memory that an attribute takes beside its name and value. An estimate.
const OVERHEAD: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FileAttributes {
    files: BTreeMap<u64, BTreeMap<Box<[u8]>, Bytes>>,
    /// Bytes of memory.
    bytes: usize,
}

fn memory_of(name: &[u8], value: &Bytes) -> usize {
    OVERHEAD + name.len() + value.len()
}

impl FileAttributes {
    /// Set an attribute of a file, or remove it.
    pub(super) fn set(&mut self, number: u64, name: Box<[u8]>, value: Option<Bytes>) {
        let attributes = self.files.entry(number).or_default();
        if let Some(before) = attributes.get(&name) {
            self.bytes -= memory_of(&name, before);
        }
        if let Some(value) = value {
            self.bytes += memory_of(&name, &value);
            attributes.insert(name, value);
        } else {
            attributes.remove(&name);
            if attributes.is_empty() {
                self.files.remove(&number);
            }
        }
    }

    /// Remove all attributes of a file.
    pub(super) fn clear(&mut self, number: u64) {
        let gone = self.files.remove(&number).unwrap_or_default();
        self.bytes -= gone.iter().map(|(name, value)| memory_of(name, value)).sum::<usize>();
    }

    /// Value of an attribute.
    pub(crate) fn get(&self, number: u64, name: &[u8]) -> Option<&Bytes> {
        self.files.get(&number)?.get(name)
    }

    /// Attributes of a file, by name.
    pub(crate) fn of(&self, number: u64) -> impl Iterator<Item = (&[u8], &Bytes)> {
        self.files.get(&number).into_iter().flatten().map(|(name, value)| (&**name, value))
    }

    pub(crate) fn has_any(&self, number: u64) -> bool {
        self.files.contains_key(&number)
    }

    /// Files with attributes, and the bytes of memory that those take.
    pub(crate) fn files(&self) -> impl Iterator<Item = (u64, usize)> {
        let memory = |attributes: &BTreeMap<Box<[u8]>, Bytes>| {
            attributes.iter().map(|(name, value)| memory_of(name, value)).sum()
        };
        self.files.iter().map(move |(number, attributes)| (*number, memory(attributes)))
    }

    /// Bytes of memory that all take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_that_of_the_attributes_that_are_left() {
        let mut attributes = FileAttributes::default();
        let value = |length: usize| Some(Bytes::from(vec![1; length]));
        attributes.set(1, (*b"user.a").into(), value(10));
        attributes.set(1, (*b"user.a").into(), value(3));
        attributes.set(1, (*b"user.b").into(), value(0));
        attributes.set(2, (*b"user.a").into(), value(5));
        assert_eq!(attributes.bytes(), 3 * (OVERHEAD + 6) + 8);
        assert_eq!(attributes.files().map(|(_, bytes)| bytes).sum::<usize>(), attributes.bytes());
        assert_eq!(attributes.get(1, b"user.a").map(Bytes::len), Some(3));
        assert_eq!(attributes.of(1).map(|(name, _)| name).collect::<Vec<_>>(), [b"user.a", b"user.b"]);

        attributes.set(1, (*b"user.a").into(), None);
        attributes.set(3, (*b"user.a").into(), None);
        attributes.clear(2);
        attributes.clear(2);
        assert_eq!((attributes.bytes(), attributes.has_any(2)), (OVERHEAD + 6, false));
        attributes.set(1, (*b"user.b").into(), None);
        assert_eq!((attributes.bytes(), attributes.files().count()), (0, 0));
    }
}
