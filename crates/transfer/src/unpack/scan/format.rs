//! The format of an archive: by its name where that leaves no doubt, else by its first and last bytes.

use std::path::Path;

use seqferry_archive::{ArchiveError, ArchiveFault, BLOCK, ReadOptions, ScanStep, Scanner};
use seqferry_store::{PinnedObject, Range};

use super::{Scan, ScanError};
use crate::unpack::member_location::Format;
use crate::unpack::zip;

impl Scan {
    /// The format that the name says, where it leaves no doubt: that of a tar. It saves a request.
    pub(super) fn format_by_name(&self, archive: &PinnedObject) -> Option<Format> {
        let plain = Path::new(&self.archive.key).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("tar"));
        (plain || archive.size == 0).then_some(Format::Plain)
    }

    /// The format, by the first bytes.
    pub(super) async fn format(&self, archive: &PinnedObject) -> Result<Format, ScanError> {
        if archive.size == 0 {
            return Ok(Format::Plain);
        }
        let range = Range { first: 0, last: archive.size.min(BLOCK) - 1 };
        let read = self.client.read_range(archive, range).await?;
        Ok(match &read.bytes[..] {
            [0x1f, 0x8b, ..] => Format::Gzip,
            // A frame, or one that is skipped.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Format::Zstd,
            block if block.starts_with(zip::FIRST_VOLUME) => return Err(self.volume().into()),
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Format::ZipDeflated,
            // A zip may lie behind a program that unpacks it, or behind anything else.
            block if !begins_a_tar(block) && self.ends_a_zip(archive).await? => Format::ZipDeflated,
            _ => Format::Plain,
        })
    }

    /// True when the directory of a zip ends where the object ends.
    async fn ends_a_zip(&self, archive: &PinnedObject) -> Result<bool, ScanError> {
        let range = Range { first: archive.size.saturating_sub(zip::LONGEST_END), last: archive.size - 1 };
        let read = self.client.read_range(archive, range).await?;
        Ok(zip::is_end(&read.bytes))
    }
}

/// True for the names of compressed archives.
pub(super) fn is_named_compressed(key: &str) -> bool {
    const ENDINGS: [&str; 9] = ["gz", "tgz", "taz", "bgz", "zst", "zstd", "tzst", "zip", "jar"];
    let ending = Path::new(key).extension().unwrap_or_default();
    ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known))
}

/// True for the names that programs give to the volumes of a split zip: `x.z01` and so on, `x.zip.001` and so on.
pub(super) fn is_named_volume(key: &str) -> bool {
    let Some((stem, ending)) = key.rsplit_once('.') else { return false };
    let digits = |text: &str, least| text.len() >= least && text.bytes().all(|byte| byte.is_ascii_digit());
    let of_7_zip = digits(ending, 3) && Path::new(stem).extension().is_some_and(|zip| zip.eq_ignore_ascii_case("zip"));
    of_7_zip || ending.strip_prefix(['z', 'Z']).is_some_and(|number| digits(number, 2))
}

/// True when a tar may begin with these bytes: with a header, or with zeros.
fn begins_a_tar(block: &[u8]) -> bool {
    let mut scanner = Scanner::new(None, ReadOptions::default());
    while let Ok(ScanStep::Need { offset, .. }) = scanner.step() {
        if offset > 0 || scanner.supply(offset, block) == 0 {
            break;
        }
    }
    !matches!(scanner.step(), Err(ArchiveError { fault: ArchiveFault::NotTar(_), .. })) && block.len() as u64 == BLOCK
}
