//! The lines of an index that is made here, of the headers of an archive.

use std::sync::Arc;

use seqferry_archive::index::{IndexBuilder, IndexHead, IndexMember, TarIdentity};
use seqferry_archive::{ArchiveEvent, ScanStep, Scanner, StreamReader};
use seqferry_client::forward::ForwardReader;
use seqferry_store::PinnedObject;

use super::admission::MemberAdmission;
use super::lines::{Lines, Ranges, SIZES, identity};
use super::whole::Follower;
use super::{Scan, ScanError};
use crate::stated_digest::StatedDigest;
use crate::unpack::member_location::Format;
use crate::unpack::plain::{PlainStream, TrailingBytes};

impl Lines {
    /// The index that the headers of the archive give, with all its members admitted or refused. Where all bytes go by
    /// on the way, and are those that `stated` states, with the CRC-32C of every member.
    pub(super) async fn of_headers(
        scan: &Scan,
        archive: &PinnedObject,
        stated: &StatedDigest,
        admission: &mut MemberAdmission,
    ) -> Result<Self, ScanError> {
        let retained = scan.retained(archive, Format::Plain);
        let mut follower = Follower::new(scan, archive, stated.digest());
        let mut options = scan.options.read.clone();
        options.limits.members = scan.options.members;
        let mut scanner = Scanner::new(Some(archive.size), options);
        let head = IndexHead::new(concat!("seqferry ", env!("CARGO_PKG_VERSION")), identity(archive), None);
        let mut builder = IndexBuilder::new(&head);
        let source = Ranges { client: scan.client.clone(), object: archive.clone(), retained: retained.clone() };
        let mut bytes = ForwardReader::new(source, archive.size, SIZES);
        loop {
            match scanner.step().map_err(|error| scan.bad(&error))? {
                ScanStep::Need { offset, .. } => {
                    let found = bytes.at(offset).await?;
                    follower.observe(bytes.here()).await;
                    if found.is_empty() {
                        scanner.end_of_input(offset);
                    } else {
                        scanner.supply(offset, &found);
                    }
                    if scan.pages.is_closed() {
                        return Err(ScanError::Closed);
                    }
                }
                ScanStep::Member(member) => {
                    admission.admit(&member);
                    builder.member(&IndexMember::from(*member));
                }
                ScanStep::End(_) => {
                    let proven = follower.finish(scan, stated, &mut bytes).await?;
                    admission.sums = proven.is_some();
                    if let Some(retained) = retained {
                        retained.ended(archive.size);
                    }
                    return Ok(proven.unwrap_or_else(|| Self::Made(builder.finish().into())));
                }
            }
        }
    }

    /// The index that the headers of a compressed tar give, with the CRC-32C of every member. They count where the
    /// storage or the compressed data states a digest of the bytes that went by; a disk counts as what it holds.
    pub(super) async fn of_stream(
        scan: &Scan,
        archive: &PinnedObject,
        format: Format,
        stated: &StatedDigest,
        admission: &mut MemberAdmission,
    ) -> Result<Self, ScanError> {
        let mut options = scan.options.read.clone();
        options.limits.members = scan.options.members;
        let store = Arc::clone(&scan.client.connection().store);
        let end = if options.trailing_bytes { TrailingBytes::Anything } else { TrailingBytes::Zeros };
        let mut plain = PlainStream::whole(store, archive.clone(), format, end, stated.digest());
        // How long the tar is shows in the end only.
        let live = TarIdentity { size: u64::MAX / 2, ..identity(archive) };
        let mut builder =
            IndexBuilder::new(&IndexHead::new(concat!("seqferry ", env!("CARGO_PKG_VERSION")), live, None));
        let mut reader = StreamReader::new(None, options);
        let retained = scan.retained(archive, format);
        loop {
            let offset = plain.position();
            let chunk = plain.next(u64::MAX).await?;
            if let Some(retained) = &retained {
                retained.offer(offset, &chunk);
            }
            let (mut input, last) = (&chunk[..], chunk.is_empty());
            while let Some(event) = reader.next(&mut input).map_err(|error| scan.bad(&error))? {
                match &event {
                    ArchiveEvent::End(_) => break,
                    ArchiveEvent::Member(member) => admission.admit(member),
                    _ => {}
                }
                builder.event(&event);
            }
            if last {
                reader.finish().map_err(|error| scan.bad(&error))?;
                let size = plain.position();
                let read = plain.ended().await;
                let is_checked = read.as_ref().is_some_and(|read| read.is_checked);
                let is_proven = scan.is_proven(stated, read.and_then(|read| read.digest)).await?;
                admission.sums = is_proven || is_checked || !scan.client.capabilities().digests;
                if let Some(retained) = retained {
                    retained.ended(size);
                }
                return Ok(Self::Made(builder.finish().into()));
            }
            if scan.pages.is_closed() {
                return Err(ScanError::Closed);
            }
        }
    }
}
