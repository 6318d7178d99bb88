//! Identity of one write to the bucket: a random token, in the journal before the first request, and a mark derived
//! from it in the metadata of the object.

use seqferry_store::ObjectMeta;
use seqferry_store::checksum::hex;
use sha2::{Digest as _, Sha256};

use super::record::OpenUpload;

/// Metadata key of the mark.
pub(crate) const MARK: &str = "seqferry-upload";
/// Bytes of the hash that a mark shows.
const MARK_BYTES: usize = 16;

/// A token that no other write has.
pub(crate) fn new_token() -> Box<str> {
    format!("{:032x}", fastrand::u128(..)).into()
}

impl OpenUpload {
    /// The mark that the object of this write has in its metadata: a hash of the token, the path and the size. An
    /// object of another path or size that has inherited the metadata does not pass for this write. None: there is no
    /// token.
    pub(crate) fn mark(&self) -> Option<String> {
        if self.token.is_empty() {
            return None;
        }
        let mut hasher = Sha256::new();
        for part in [self.token.as_bytes(), self.path.as_bytes(), &self.size.to_le_bytes()] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Some(hex(&hasher.finalize()[..MARK_BYTES]))
    }

    /// True when an object at the path of this write was made by it.
    pub(crate) fn has_made(&self, there: &ObjectMeta) -> bool {
        there.size == self.size && self.mark().is_some_and(|mark| there.attributes.metadata.get(MARK) == Some(&mark))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_that_of_one_token_path_and_size() {
        let open = OpenUpload {
            number: 1,
            changed: 2,
            path: "a".into(),
            modified: 3,
            size: 4,
            upload_id: "".into(),
            part_size: 0,
            token: new_token(),
            is_of_this_process: true,
        };
        let mut there = ObjectMeta { size: 4, ..ObjectMeta::default() };
        assert!(!open.has_made(&there), "an object without a mark");
        there.attributes.metadata.insert(MARK.to_owned(), open.mark().unwrap());
        assert!(open.has_made(&there));
        let later = OpenUpload { changed: 9, modified: 9, upload_id: "id".into(), part_size: 5, ..open.clone() };
        assert!(later.has_made(&there), "what an upload learns of itself changes nothing");
        assert!(!OpenUpload { token: new_token(), ..open.clone() }.has_made(&there));
        assert!(!OpenUpload { token: "".into(), ..open.clone() }.has_made(&there));
        assert!(!OpenUpload { path: "b".into(), ..open.clone() }.has_made(&there));
        assert!(!OpenUpload { size: 5, ..open.clone() }.has_made(&there));
        there.size = 5;
        assert!(!open.has_made(&there) && !OpenUpload { size: 5, ..open }.has_made(&there));
    }
}
