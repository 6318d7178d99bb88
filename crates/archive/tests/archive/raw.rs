//! Archives made byte by byte, independent of the crate's writer.

/// Decimal length, key and value of a PAX record.
pub(crate) fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let len = (rest + 1..rest + 20).find(|len| rest + len.to_string().len() == *len).unwrap();
    [format!("{len} {key}=").as_bytes(), value, b"\n"].concat()
}

/// A ustar header that can be bent before its checksum is made.
#[derive(Clone)]
pub(crate) struct Head(pub(crate) [u8; 512]);

impl Head {
    pub(crate) fn new(name: &[u8], flag: u8, size: u64) -> Self {
        let mut head =
            Self([0; 512]).put(0, &name[..name.len().min(100)]).put(100, b"0000644\0").put(108, b"0000000\0");
        head = head.put(116, b"0000000\0").put(124, format!("{size:011o}\0").as_bytes()).put(136, b"14500000000\0");
        head.put(156, &[flag]).put(257, b"ustar\x0000")
    }

    pub(crate) fn gnu(self) -> Self {
        self.put(257, b"ustar  \0")
    }

    pub(crate) fn link(self, target: &[u8]) -> Self {
        self.put(157, target)
    }

    pub(crate) fn put(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    pub(crate) fn block(mut self) -> [u8; 512] {
        self.0[148..156].fill(b' ');
        let sum: u32 = self.0.iter().map(|byte| u32::from(*byte)).sum();
        self.put(148, format!("{sum:06o}\0 ").as_bytes()).0
    }
}

/// An archive under construction.
#[derive(Clone, Default)]
pub(crate) struct Tar(pub(crate) Vec<u8>);

impl Tar {
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Bytes padded to whole blocks.
    pub(crate) fn padded(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(crate) fn head(self, head: Head) -> Self {
        self.raw(&head.block())
    }

    pub(crate) fn file(self, name: &str, data: &[u8]) -> Self {
        self.head(Head::new(name.as_bytes(), b'0', data.len() as u64)).padded(data)
    }

    /// An extension header of this type.
    pub(crate) fn extension(self, flag: u8, body: &[u8]) -> Self {
        let head = Head::new(b"././@Extension", flag, body.len() as u64);
        let head = if flag.is_ascii_uppercase() { head.gnu() } else { head };
        self.head(head).padded(body)
    }

    pub(crate) fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let body: Vec<u8> = records.iter().flat_map(|(key, value)| record(key, value)).collect();
        self.extension(b'x', &body)
    }

    pub(crate) fn end(self) -> Vec<u8> {
        self.raw(&[0; 1024]).0
    }
}
