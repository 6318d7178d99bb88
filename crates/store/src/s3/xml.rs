//! XML documents of S3: replies are read into a tree, bodies of requests are written.
//!
//! A document that is not well-formed is an error as a whole: part of a listing would pass for all of it. A tree has at
//! most [`MOST_ELEMENTS`] elements, [`DEEPEST`] of them within each other.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::str::FromStr;

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use bytes::Bytes;
use xmlparser::{ElementEnd, Token, Tokenizer};

use crate::checksum::ChecksumAlgorithm;

/// Largest number of elements in a document. A page of a listing has 1,000 entries of some ten elements.
const MOST_ELEMENTS: usize = 500_000;
/// Largest number of elements within each other. Documents of S3 have five.
const DEEPEST: usize = 32;
const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// An element of a document, with the elements in it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Element<'a> {
    /// The name without its prefix.
    pub(super) name: &'a str,
    text: Cow<'a, str>,
    children: Vec<Self>,
}

impl<'a> Element<'a> {
    /// Reads a document. White space and a byte order mark may come before it: services send blanks until the result
    /// is there, and MinIO sends them before the XML declaration.
    ///
    /// # Errors
    /// The reason why this is no document.
    pub(super) fn read(document: &'a [u8]) -> Result<Self, String> {
        let document = document.trim_ascii_start();
        let document = document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document).trim_ascii_start();
        let text = std::str::from_utf8(document).map_err(|error| error.to_string())?;
        let (mut open, mut count): (Vec<Self>, usize) = (Vec::new(), 0);
        for token in Tokenizer::from(text) {
            match token.map_err(|error| error.to_string())? {
                Token::ElementStart { local, .. } => {
                    count += 1;
                    if count > MOST_ELEMENTS || open.len() == DEEPEST {
                        return Err("the document has too many elements".to_owned());
                    }
                    open.push(Self { name: local.as_str(), ..Self::default() });
                }
                Token::ElementEnd { end: ElementEnd::Open, .. } => {}
                Token::ElementEnd { end, .. } => {
                    let closed = open.pop().ok_or("an element ends that did not begin")?;
                    if let ElementEnd::Close(_, name) = end
                        && name.as_str() != closed.name
                    {
                        return Err(format!("the element {} ends as {}", closed.name, name.as_str()));
                    }
                    match open.last_mut() {
                        Some(parent) => parent.children.push(closed),
                        None => return Ok(closed),
                    }
                }
                Token::Text { text } => {
                    if let Some(element) = open.last_mut() {
                        element.push(unescape(text.as_str())?);
                    }
                }
                Token::Cdata { text, .. } => {
                    if let Some(element) = open.last_mut() {
                        element.push(text.as_str().into());
                    }
                }
                _ => {}
            }
        }
        Err("the document has no end".to_owned())
    }

    fn push(&mut self, text: Cow<'a, str>) {
        if self.text.is_empty() { self.text = text } else { self.text.to_mut().push_str(&text) }
    }

    /// The elements of this name directly in this one.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of the element of this name.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.as_ref())
    }

    /// The same as text of its own; empty where there is none.
    pub(super) fn owned(&self, name: &str) -> String {
        self.text(name).unwrap_or_default().to_owned()
    }

    /// A number, or `true` or `false`.
    pub(super) fn value<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.trim().parse().ok()
    }

    /// A time, in seconds since the epoch.
    pub(super) fn time(&self, name: &str) -> Option<f64> {
        let time = DateTime::from_str(self.text(name)?.trim(), Format::DateTimeWithOffset).ok()?;
        Some(time.as_secs_f64())
    }

    /// Bytes of all names and texts.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.name.len() + self.text.len() + self.children.iter().map(Self::size).sum::<usize>()
    }

    /// The strongest checksum.
    pub(super) fn checksum(&self) -> Option<(ChecksumAlgorithm, String)> {
        let of = |name: &str| self.text(name).filter(|value| !value.is_empty()).map(str::to_owned);
        ChecksumAlgorithm::ALL.into_iter().find_map(|algorithm| Some((algorithm, of(checksum_element(algorithm))?)))
    }
}

/// Name of the element with a checksum of this algorithm.
pub(super) fn checksum_element(algorithm: ChecksumAlgorithm) -> &'static str {
    match algorithm {
        ChecksumAlgorithm::Crc64Nvme => "ChecksumCRC64NVME",
        ChecksumAlgorithm::Crc32C => "ChecksumCRC32C",
        ChecksumAlgorithm::Crc32 => "ChecksumCRC32",
        ChecksumAlgorithm::Sha256 => "ChecksumSHA256",
        ChecksumAlgorithm::Sha1 => "ChecksumSHA1",
    }
}

/// Replaces the references in a text. References to characters that XML forbids are replaced too: keys hold them.
fn unescape(text: &str) -> Result<Cow<'_, str>, String> {
    let Some(first) = text.find('&') else { return Ok(text.into()) };
    let (mut plain, mut rest) = (text[..first].to_owned(), &text[first..]);
    while let Some(after) = rest.strip_prefix('&') {
        let (name, behind) = after.split_once(';').ok_or("a reference has no end")?;
        let number = |digits: &str, base| u32::from_str_radix(digits, base).ok().and_then(char::from_u32);
        plain.push(
            match (name, name.strip_prefix("#x"), name.strip_prefix('#')) {
                ("lt", ..) => Some('<'),
                ("gt", ..) => Some('>'),
                ("amp", ..) => Some('&'),
                ("quot", ..) => Some('"'),
                ("apos", ..) => Some('\''),
                (_, Some(digits), _) => number(digits, 16),
                (_, _, Some(digits)) => number(digits, 10),
                _ => None,
            }
            .ok_or_else(|| format!("the reference &{name:.20}; is unknown"))?,
        );
        let next = behind.find('&').unwrap_or(behind.len());
        plain.push_str(&behind[..next]);
        rest = &behind[next..];
    }
    Ok(plain.into())
}

/// Writes an element with a text.
pub(super) fn push_text(document: &mut String, name: &str, text: &str) {
    let _never_fails = write!(document, "<{name}>");
    for character in text.chars() {
        match character {
            '<' => document.push_str("&lt;"),
            '>' => document.push_str("&gt;"),
            '&' => document.push_str("&amp;"),
            '"' => document.push_str("&quot;"),
            '\'' => document.push_str("&apos;"),
            // Readers take these for line feeds, or for blanks.
            '\r' | '\n' | '\u{85}' | '\u{2028}' => {
                let _never_fails = write!(document, "&#x{:X};", u32::from(character));
            }
            other => document.push(other),
        }
    }
    let _never_fails = write!(document, "</{name}>");
}

/// A document with this root, whose content is XML already.
pub(super) fn document(root: &str, content: &str) -> Bytes {
    format!("<{root} xmlns=\"{NAMESPACE}\">{content}</{root}>").into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_document_is_read_behind_white_space_and_marks() {
        for text in [
            "<?xml version=\"1.0\"?>\n<a><b>t</b></a>",
            "\n\n <?xml version=\"1.0\"?>\n<a><b>t</b></a>",
            " \u{feff}\t<?xml version=\"1.0\"?><a><b>t</b></a>",
            "<s:a xmlns:s=\"x\"><s:b i='1'>t<!-- c --></s:b></s:a>  ",
            "<a>\n<b><![CDATA[t]]></b>\n</a>",
        ] {
            let root = Element::read(text.as_bytes()).expect(text);
            assert_eq!((root.name, root.text("b")), ("a", Some("t")), "{text}");
        }
    }

    #[test]
    fn what_is_not_well_formed_is_an_error_as_a_whole() {
        let deep = "<a>".repeat(DEEPEST + 1);
        for text in [
            "",
            " ",
            "text",
            "<a>",
            "<a><b>t</b>",
            "<a><b>t</a></b>",
            "<a>&nbsp;</a>",
            "<a>& b</a>",
            "<a>&#xD800;</a>",
            "<a>\u{1}</a>",
            "<a",
            "</a>",
            &deep,
        ] {
            assert!(Element::read(text.as_bytes()).is_err(), "{text}");
        }
        assert!(Element::read(b"<a>\xff</a>").is_err());
    }

    #[test]
    fn values_are_read_where_they_are_some() {
        let text = "<a><n> 7 </n><t>true</t><m>-1</m><x>x</x><e/><d>2026-01-02T03:04:05.500Z</d></a>";
        let root = Element::read(text.as_bytes()).unwrap();

        assert_eq!((root.value::<u64>("n"), root.value::<bool>("t")), (Some(7), Some(true)));
        assert_eq!((root.value::<u64>("m"), root.value::<u64>("x"), root.value::<u64>("e")), (None, None, None));
        assert_eq!((root.time("d"), root.time("x")), (Some(1_767_323_045.5), None));
        assert_eq!((root.text("e"), root.text("f")), (Some(""), None));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(text in "[^\u{0}-\u{8}\u{b}\u{c}\u{e}-\u{1f}\u{fffe}\u{ffff}]*") {
            let mut content = String::new();
            push_text(&mut content, "Key", &text);
            let written = document("Delete", &content);

            let root = Element::read(&written).unwrap();

            prop_assert_eq!((root.name, root.text("Key")), ("Delete", Some(text.as_str())));
        }
    }
}
