//! The XML that S3 uses.

use std::fmt::Write as _;

/// Text under construction.
#[derive(Debug)]
pub(super) struct Xml(String);

impl Xml {
    /// A document with this root, which [`Xml::end`] closes.
    pub(super) fn document(root: &str) -> Self {
        let mut text = String::with_capacity(512);
        text.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<");
        text.push_str(root);
        text.push_str(" xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
        Self(text)
    }

    /// An error document: it has no namespace.
    pub(super) fn error() -> Self {
        Self("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>".to_owned())
    }

    pub(super) fn open(&mut self, name: &str) -> &mut Self {
        let _ = write!(self.0, "<{name}>");
        self
    }

    pub(super) fn close(&mut self, name: &str) -> &mut Self {
        let _ = write!(self.0, "</{name}>");
        self
    }

    pub(super) fn element(&mut self, name: &str, value: &str) -> &mut Self {
        self.open(name);
        for c in value.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                // Not XML 1.0, but what S3 sends when the client does not ask for an encoding.
                c if c < ' ' || c == '\u{7f}' => {
                    let _ = write!(self.0, "&#x{:x};", u32::from(c));
                }
                c => self.0.push(c),
            }
        }
        self.close(name)
    }

    pub(super) fn number(&mut self, name: &str, value: impl std::fmt::Display) -> &mut Self {
        let _ = write!(self.0, "<{name}>{value}</{name}>");
        self
    }

    /// An `ETag` with its quotes.
    pub(super) fn etag(&mut self, etag: &str) -> &mut Self {
        let _ = write!(self.0, "<ETag>&quot;{etag}&quot;</ETag>");
        self
    }

    pub(super) fn end(mut self, root: &str) -> String {
        self.close(root);
        self.0
    }
}

/// One element read: its path of names below the root is `path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event<'a> {
    Open(&'a str),
    Text(String),
    Close(&'a str),
}

/// Reads a document that a client sent; namespaces and attributes are skipped.
///
/// # Errors
/// When it is not well formed as far as that can be seen in passing.
pub(super) fn read(text: &str) -> Result<Vec<Event<'_>>, ()> {
    let mut events = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text.trim_start_matches('\u{feff}');
    while let Some(at) = rest.find('<') {
        if at > 0 && !open.is_empty() {
            events.push(Event::Text(unescape(&rest[..at])?));
        }
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").ok_or(())?.1;
            continue;
        }
        let (tag, after) = rest.split_once('>').ok_or(())?;
        rest = after;
        if tag.starts_with(['?', '!']) {
            continue;
        }
        let local = |name: &'_ str| name.rsplit(':').next().map_or(0, |local| name.len() - local.len());
        if let Some(name) = tag.strip_prefix('/') {
            let name = name.trim_end();
            let name = &name[local(name)..];
            if open.pop() != Some(name) {
                return Err(());
            }
            events.push(Event::Close(name));
        } else {
            let empty = tag.ends_with('/');
            let name = tag.trim_end_matches('/').split_ascii_whitespace().next().ok_or(())?;
            let name = &name[local(name)..];
            events.push(Event::Open(name));
            if empty {
                events.push(Event::Close(name));
            } else {
                open.push(name);
            }
        }
    }
    if open.is_empty() && !events.is_empty() { Ok(events) } else { Err(()) }
}

fn unescape(text: &str) -> Result<String, ()> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let (entity, after) = after.split_once(';').ok_or(())?;
        out.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            number => {
                let number = number.strip_prefix('#').ok_or(())?;
                let code = match number.strip_prefix(['x', 'X']) {
                    Some(hex) => u32::from_str_radix(hex, 16),
                    None => number.parse(),
                };
                code.ok().and_then(char::from_u32).ok_or(())?
            }
        });
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// The leaves of each element called `item`: name and text.
///
/// # Errors
/// As [`read`].
pub(super) fn items(text: &str, item: &str) -> Result<Vec<Vec<(String, String)>>, ()> {
    let mut items = Vec::new();
    let mut current: Option<Vec<(String, String)>> = None;
    let mut value = String::new();
    for event in read(text)? {
        match event {
            Event::Open(name) if name == item => current = Some(Vec::new()),
            Event::Open(_) => value.clear(),
            Event::Text(text) => value.push_str(&text),
            Event::Close(name) if name == item => items.extend(current.take()),
            Event::Close(name) => {
                if let Some(leaves) = &mut current {
                    leaves.push((name.to_owned(), std::mem::take(&mut value)));
                }
                value.clear();
            }
        }
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut xml = Xml::document("Delete");
        xml.open("Object").element("Key", "a&<b>\u{1}\r\n\"é").close("Object").element("Quiet", "true");
        let text = xml.end("Delete");

        let found = items(&text, "Object").unwrap();
        assert_eq!(found, [[("Key".to_owned(), "a&<b>\u{1}\r\n\"é".to_owned())]]);
        assert_eq!(items(&text, "Delete").unwrap()[0].last().unwrap().0, "Quiet");
    }

    #[test]
    fn malformed_documents_are_refused() {
        for text in ["", "x", "<a>", "<a></b>", "<a>&nbsp;</a>", "<a"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(items("<?xml version='1.0'?><s:a xmlns:s='u'><s:b/><b>1</b></s:a>", "b").is_ok());
    }
}
