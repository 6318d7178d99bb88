//! Beginnings of XML documents that services send before the document is ready.

use bytes::Bytes;

/// Finds the XML declaration of a document that has white space before it, and overwrites it with spaces. MinIO sends
/// white space while it joins parts, and an XML reader takes the declaration behind it for a fault. The length of the
/// document stays as announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LateDeclaration {
    /// Nothing but white space has come, if `blank`.
    Before { blank: bool },
    /// The end of the declaration has not come yet.
    Within,
    /// The document has begun.
    After,
}

impl Default for LateDeclaration {
    fn default() -> Self {
        Self::Before { blank: false }
    }
}

impl LateDeclaration {
    /// Returns the next bytes of the document, as long as they came.
    pub(super) fn overwrite(&mut self, bytes: Bytes) -> Bytes {
        let start = match *self {
            Self::After => return bytes,
            Self::Within => 0,
            Self::Before { blank } => {
                let document = trim(&bytes);
                let start = bytes.len() - document.len();
                if document.is_empty() {
                    *self = Self::Before { blank: blank || start > 0 };
                    return vec![b' '; bytes.len()].into();
                }
                if !(blank || start > 0) || !document.starts_with(b"<?") {
                    *self = Self::After;
                    return bytes;
                }
                start
            }
        };
        let mut document = bytes.to_vec();
        let end = document.windows(2).skip(start).position(|pair| pair == b"?>").map(|at| start + at + 2);
        *self = if end.is_some() { Self::After } else { Self::Within };
        document.iter_mut().take(end.unwrap_or(bytes.len())).for_each(|byte| *byte = b' ');
        document.into()
    }
}

/// A document without the white space and the byte order mark before it.
pub(super) fn trim(document: &[u8]) -> &[u8] {
    let document = document.trim_ascii_start();
    document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document).trim_ascii_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_behind_white_space_is_overwritten_however_the_document_is_cut() {
        for (document, meant) in [
            ("\n\n<?xml version=\"1.0\"?>\n<a>?></a>", "<a>?></a>"),
            (" \u{feff}<?xml?><a/>", "<a/>"),
            ("<?xml version=\"1.0\"?><a/>", "<?xml version=\"1.0\"?><a/>"),
            ("\n<a><?b?></a>", "<a><?b?></a>"),
            (" \n ", ""),
            ("", ""),
        ] {
            // Marks of two characters come in one piece.
            let may_be_cut = |cut: &usize| document.is_char_boundary(*cut) && !document[..*cut].ends_with(['<', '?']);
            for cut in (0..=document.len()).filter(may_be_cut) {
                let mut declaration = LateDeclaration::default();
                let pieces = [&document.as_bytes()[..cut], &document.as_bytes()[cut..]];

                let read = pieces.map(|piece| declaration.overwrite(Bytes::copy_from_slice(piece))).concat();

                assert_eq!(read.len(), document.len());
                assert_eq!(String::from_utf8_lossy(&read).trim(), meant, "{document:?} cut at {cut}");
            }
        }
    }
}
