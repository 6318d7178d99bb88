//! Verification that an object in the bucket is a given file: by the mark of the write, or by a checksum of the bytes.
//!
//! Size, time, mode and owner are statements of a client: a rewritten file can have all of them unchanged. So a
//! difference in them shows that the object is not the file, and equality shows nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use seqferry_client::upload::growing_part_size;
use seqferry_store::checksum::{base64, hex};
use seqferry_store::{ChecksumKind, DigestAlgorithm, Digester, ObjectMeta};
use seqferry_transfer::pipe::{FIRST_PART, InputBytes as _, PipeError};
use seqferry_transfer::verification::join_digests;

use super::generation::GenerationReader;
use super::metadata::has_facts;
use super::plan::FileUpload;
use super::{UploadError, Uploader};
use crate::journal::Disk;
use crate::overlay::{Node, OpenUpload};

/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// Bytes of an object beside those of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentMatch {
    Same,
    Different,
    /// The service shows no digest of the bytes.
    Unknown,
}

/// An object at the path of a file that was to be written before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteMatch {
    /// It is the file: nothing is left to write.
    File,
    /// This generation of the file was written, and bytes that were never acknowledged may have been written over it on
    /// this machine before this process was started.
    Earlier,
    /// It is no write of this file.
    Other,
}

impl<D: Disk> Uploader<D> {
    /// Decide about the object at the path of a file. `open` is the write as the journal has it, and `is_again` is true
    /// when it was there before this attempt.
    pub(super) async fn match_write(
        &self,
        (file_upload, open, is_again): (&FileUpload, &OpenUpload, bool),
        node: &Node,
        there: &ObjectMeta,
    ) -> Result<WriteMatch, UploadError> {
        let has_facts = has_facts(node, there);
        let is_base = node.base.as_ref().is_some_and(|base| base.path == file_upload.path && *base.etag == *there.etag);
        if node.is_as_base() && is_base {
            return Ok(if has_facts { WriteMatch::File } else { WriteMatch::Other });
        }
        if !is_again || !has_facts {
            return Ok(WriteMatch::Other);
        }
        let is_made = open.has_made(there);
        if node.is_as_base() {
            return Ok(if is_made { WriteMatch::File } else { WriteMatch::Other });
        }
        let bytes = self.compare(file_upload, open.part_size, there).await?;
        Ok(match (bytes, is_made) {
            (ContentMatch::Same, _) => WriteMatch::File,
            (ContentMatch::Unknown, true) if open.is_of_this_process => WriteMatch::File,
            (_, true) if !open.is_of_this_process => WriteMatch::Earlier,
            // Another program has taken over the metadata of this write.
            _ => WriteMatch::Other,
        })
    }

    /// True when an object beside another program's is this generation of a file.
    pub(super) async fn is_conflict_copy_of(
        &self,
        file_upload: &FileUpload,
        open: &OpenUpload,
        node: &Node,
        found: &ObjectMeta,
    ) -> Result<bool, UploadError> {
        if !has_facts(node, found) {
            return Ok(false);
        }
        let is_made = open.has_made(found);
        if is_made && (open.is_of_this_process || node.is_as_base()) {
            return Ok(true);
        }
        Ok(!node.is_as_base() && self.compare(file_upload, open.part_size, found).await? == ContentMatch::Same)
    }

    /// Compare the bytes of a file with the digest that the service shows of an object. `part_size`: of its first parts,
    /// 0 where that is not known.
    pub(super) async fn compare(
        &self,
        file_upload: &FileUpload,
        part_size: u64,
        there: &ObjectMeta,
    ) -> Result<ContentMatch, UploadError> {
        let kept = there.checksum.as_ref().filter(|sum| sum.kind == ChecksumKind::FullObject);
        if let Some(sum) = kept {
            let algorithm = DigestAlgorithm::Checksum(sum.algorithm);
            let Some(digest) = self.digests(file_upload, algorithm, |_| u64::MAX).await? else {
                return Ok(ContentMatch::Different);
            };
            let is_same = digest.first().is_some_and(|digest| sum.value == base64(digest));
            return Ok(if is_same { ContentMatch::Same } else { ContentMatch::Different });
        }
        if there.opaque_etag {
            return Ok(ContentMatch::Unknown);
        }
        if !there.etag.contains('-') {
            let Some(digest) = self.digests(file_upload, DigestAlgorithm::Md5, |_| u64::MAX).await? else {
                return Ok(ContentMatch::Different);
            };
            let is_same = digest.first().is_some_and(|digest| there.etag.eq_ignore_ascii_case(&hex(digest)));
            return Ok(match self.spec.client.quirks().etags_are_digests() {
                _ if is_same => ContentMatch::Same,
                Some(true) => ContentMatch::Different,
                // It may be no digest of bytes at all.
                Some(false) | None => ContentMatch::Unknown,
            });
        }
        // Parts as they are cut here: a service that makes the `ETag` of them shows the same one.
        let first = if part_size > 0 { part_size } else { self.spec.part_size.unwrap_or(FIRST_PART) };
        let parts = self.digests(file_upload, DigestAlgorithm::Md5, |number| growing_part_size(number, first)).await?;
        let Some(parts) = parts else { return Ok(ContentMatch::Different) };
        let etag = join_digests(DigestAlgorithm::Md5, parts.iter().map(Vec::as_slice));
        Ok(if there.etag.eq_ignore_ascii_case(&etag) { ContentMatch::Same } else { ContentMatch::Unknown })
    }

    /// Digests of a file in parts of these sizes, by their numbers from 1. None: the object that has a part of its
    /// bytes is not there any more.
    async fn digests(
        &self,
        file_upload: &FileUpload,
        algorithm: DigestAlgorithm,
        size: impl Fn(u32) -> u64,
    ) -> Result<Option<Vec<Vec<u8>>>, UploadError> {
        let bytes = GenerationReader::new(Arc::clone(&self.inner), file_upload.number, file_upload.changed);
        let mut digests = Vec::new();
        for number in 1.. {
            let mut digester = Digester::new(algorithm);
            let (mut left, mut is_last) = (size(number), false);
            let mut is_empty = true;
            while left > 0 && !is_last {
                let wanted = PIECE.min(left);
                let piece = match bytes.next(wanted).await {
                    Ok(piece) => piece,
                    Err(_) if bytes.has_changed.load(Ordering::Acquire) && bytes.is_same() => return Ok(None),
                    Err(PipeError::Descriptor(error)) => return Err(UploadError::local(format!("{error}."))),
                    Err(_) => return Err(UploadError::Superseded),
                };
                digester.update(&piece);
                is_empty &= piece.is_empty();
                is_last = (piece.len() as u64) < wanted;
                left -= piece.len() as u64;
            }
            if number == 1 || !is_empty {
                digests.push(digester.finish());
            }
            if is_last {
                break;
            }
        }
        Ok(Some(digests))
    }
}
