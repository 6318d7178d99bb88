//! Arguments from the wire. No length is believed before that many bytes are there, and no bytes are copied.

use bytes::{Buf as _, Bytes};
use nfs3_types::nfs3::{NFS3_FHSIZE, nfstime3};
use nfs3_types::xdr_codec::Unpack;

/// The bytes are no such arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Rest of the arguments of a call.
#[derive(Debug)]
pub(crate) struct Decoder(Bytes);

impl Decoder {
    pub(crate) const fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The bytes that were not read yet.
    pub(crate) fn into_remaining(self) -> Bytes {
        self.0
    }

    pub(crate) fn number(&mut self) -> Result<u32, Malformed> {
        self.0.try_get_u32().map_err(|_| Malformed)
    }

    pub(crate) fn long(&mut self) -> Result<u64, Malformed> {
        self.0.try_get_u64().map_err(|_| Malformed)
    }

    pub(crate) fn boolean(&mut self) -> Result<bool, Malformed> {
        match self.number()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// Bytes of a stated length, at most `most`, and their padding.
    pub(crate) fn opaque(&mut self, most: usize) -> Result<Bytes, Malformed> {
        let length = self.number()? as usize;
        let padded = length.checked_next_multiple_of(4).ok_or(Malformed)?;
        if length > most || padded > self.0.len() {
            return Err(Malformed);
        }
        let mut bytes = self.0.split_to(padded);
        bytes.truncate(length);
        Ok(bytes)
    }

    pub(crate) fn fixed<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], Malformed> {
        let mut bytes = [0; LENGTH];
        self.0.try_copy_to_slice(&mut bytes).map_err(|_| Malformed)?;
        Ok(bytes)
    }

    pub(crate) fn handle(&mut self) -> Result<Bytes, Malformed> {
        self.opaque(NFS3_FHSIZE)
    }

    /// A name or a path, as long as the record allows: the share says which is too long.
    pub(crate) fn name(&mut self) -> Result<Bytes, Malformed> {
        self.opaque(usize::MAX)
    }

    pub(crate) fn optional_time(&mut self) -> Result<Option<nfstime3>, Malformed> {
        Ok(if self.boolean()? { Some(self.small()?) } else { None })
    }

    /// A value of the protocol without any length in it: those allocate what the length says.
    pub(crate) fn small<T: Unpack>(&mut self) -> Result<T, Malformed> {
        let mut rest: &[u8] = &self.0;
        let (value, _) = T::unpack(&mut rest).map_err(|_| Malformed)?;
        let used = self.0.len() - rest.len();
        self.0.advance(used);
        Ok(value)
    }

    /// Nothing may follow.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_beyond_the_bytes_allocates_nothing_and_is_malformed() {
        for length in [5, u32::MAX, u32::MAX - 3, 1 << 31] {
            let mut bytes = length.to_be_bytes().to_vec();
            bytes.extend(b"four");
            assert_eq!(Decoder::new(bytes.into()).name(), Err(Malformed), "{length}");
        }
        let mut padded = Decoder::new(Bytes::from_static(b"\0\0\0\x02ab\0\0\0\0\0\x01"));
        assert_eq!(padded.opaque(2), Ok(Bytes::from_static(b"ab")));
        assert_eq!((padded.boolean(), padded.end()), (Ok(true), Ok(())));
        assert_eq!(Decoder::new(Bytes::from_static(b"\0\0\0\x02ab\0\0")).opaque(1), Err(Malformed));
        assert_eq!(Decoder::new(Bytes::from_static(b"\0\0\0\x02ab")).opaque(2), Err(Malformed));
    }
}
