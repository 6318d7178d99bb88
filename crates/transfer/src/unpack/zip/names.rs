//! Names in a zip: UTF-8, or the code page 437 of MS-DOS where nothing says otherwise.

use rawzip::ZipFileHeaderRecord;
use rawzip::extra_fields::ExtraFieldId;

/// Characters of the code page 437 from 128 on.
const CODE_PAGE_437: &str = "\
    ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒ\
    áíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐\
    └┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀\
    αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■ ";

/// The name of a member as text, with slashes between folders.
pub(super) fn text(raw: &[u8], entry: &ZipFileHeaderRecord<'_>) -> Vec<u8> {
    let name = if entry.flags().is_utf8() { None } else { unicode_path(raw, entry) };
    let name = name.unwrap_or_else(|| decode(raw, entry.flags().is_utf8()));
    // Archivers of MS-DOS and Windows (FAT 0, NTFS 10) may write backslashes; no name there can have one.
    let windows = matches!(entry.version_made_by().creator_system().as_u8(), 0 | 10);
    if windows && !name.contains(&b'/') {
        return name.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect();
    }
    name
}

/// The name in the field of Info-ZIP that states it as UTF-8, if the field belongs to this name.
fn unicode_path(raw: &[u8], entry: &ZipFileHeaderRecord<'_>) -> Option<Vec<u8>> {
    let (_, field) = entry.extra_fields().find(|(id, _)| *id == ExtraFieldId::INFO_ZIP_UNICODE_PATH)?;
    let (version, rest) = field.split_first()?;
    let (sum, name) = rest.split_first_chunk::<4>()?;
    let mut of_raw = flate2::Crc::new();
    of_raw.update(raw);
    let belongs = *version == 1 && u32::from_le_bytes(*sum) == of_raw.sum();
    (belongs && std::str::from_utf8(name).is_ok()).then(|| name.to_vec())
}

/// Bytes without the mark of UTF-8 are still taken as UTF-8 where they are valid: many programs forget the mark.
fn decode(raw: &[u8], marked: bool) -> Vec<u8> {
    if marked || std::str::from_utf8(raw).is_ok() {
        return raw.to_vec();
    }
    let character = |byte: u8| match byte {
        0..=127 => char::from(byte),
        128.. => CODE_PAGE_437.chars().nth(usize::from(byte) - 128).unwrap_or('?'),
    };
    raw.iter().map(|byte| character(*byte)).collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ms_dos_become_text_and_utf8_stays() {
        assert_eq!(CODE_PAGE_437.chars().count(), 128);
        assert_eq!(decode(b"gr\x81n", false), "gr\u{fc}n".as_bytes());
        assert_eq!(decode(b"\xe1\xff", false), "\u{df}\u{a0}".as_bytes());
        assert_eq!(decode("gr\u{fc}n".as_bytes(), false), "gr\u{fc}n".as_bytes());
        // Marked as UTF-8 and not so: refused later, as it is.
        assert_eq!(decode(b"gr\x81n", true), b"gr\x81n");
    }
}
