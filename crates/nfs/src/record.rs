//! Records of a connection: fragments with a length before each (RFC 5531, 11), bounded before they are read.

use std::fmt;
use std::io;

use bytes::{Bytes, BytesMut};
use nfs3_types::rpc::fragment_header;
use tokio::io::{AsyncRead, AsyncReadExt as _, BufReader};

/// Fragments of one record; clients send one.
const MAX_FRAGMENTS: u32 = 64;
/// Calls of some hundred bytes each come with one read of the socket.
const BUFFER: usize = 32 << 10;

/// Cause for which a connection is closed.
#[derive(Debug)]
pub(crate) enum RecordError {
    /// The connection failed or ended inside a record.
    Io(io::Error),
    /// A record longer than any call.
    TooLong { length: usize, most: usize },
    /// A record in more fragments than any client sends.
    TooManyFragments,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::TooLong { length, most } => write!(f, "a record of {length} bytes or more, and {most} are possible"),
            Self::TooManyFragments => write!(f, "a record in more than {MAX_FRAGMENTS} fragments"),
        }
    }
}

impl From<io::Error> for RecordError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Start of a record: its first fragment is announced, and nothing of it is read.
#[derive(Debug)]
pub(crate) struct RecordStart(fragment_header);

impl RecordStart {
    /// Bytes of the first fragment, as the client has announced them.
    pub(crate) fn announced(&self) -> u64 {
        u64::from(self.0.fragment_length())
    }
}

/// Reads the records of one connection.
#[derive(Debug)]
pub(crate) struct RecordReader<R> {
    stream: BufReader<R>,
    most: usize,
}

impl<R: AsyncRead + Unpin> RecordReader<R> {
    /// Reads records of at most `most` bytes.
    pub(crate) fn new(stream: R, most: usize) -> Self {
        Self { stream: BufReader::with_capacity(BUFFER, stream), most }
    }

    /// Wait for the next record. None: the client has closed the connection.
    pub(crate) async fn start(&mut self) -> Result<Option<RecordStart>, RecordError> {
        let mut mark = [0; 4];
        if self.stream.read(&mut mark[..1]).await? == 0 {
            return Ok(None);
        }
        self.stream.read_exact(&mut mark[1..]).await?;
        Ok(Some(RecordStart(mark.into())))
    }

    /// Read the record that has started.
    pub(crate) async fn finish(&mut self, start: RecordStart) -> Result<Bytes, RecordError> {
        let mut record = BytesMut::new();
        let mut mark = start.0;
        for _ in 0..MAX_FRAGMENTS {
            let length = mark.fragment_length() as usize;
            let end = record.len().saturating_add(length);
            if end > self.most {
                return Err(RecordError::TooLong { length: end, most: self.most });
            }
            record.reserve(length);
            while record.len() < end {
                let left = (end - record.len()) as u64;
                if (&mut self.stream).take(left).read_buf(&mut record).await? == 0 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
            }
            if mark.eof() {
                return Ok(record.freeze());
            }
            let mut next = [0; 4];
            self.stream.read_exact(&mut next).await?;
            mark = next.into();
        }
        Err(RecordError::TooManyFragments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One record of these bytes from the wire, at most 8 bytes long.
    async fn read(wire: &[u8]) -> Result<Option<Bytes>, RecordError> {
        let mut reader = RecordReader::new(wire, 8);
        match reader.start().await? {
            None => Ok(None),
            Some(start) => reader.finish(start).await.map(Some),
        }
    }

    fn fragment(length: u32, is_last: bool, bytes: &[u8]) -> Vec<u8> {
        [fragment_header::new(length, is_last).into_xdr_buf().as_slice(), bytes].concat()
    }

    #[tokio::test]
    async fn fragments_make_one_record() {
        let wire = [fragment(3, false, b"abc"), fragment(0, false, b""), fragment(5, true, b"defgh")].concat();
        assert_eq!(read(&wire).await.unwrap().unwrap(), "abcdefgh");
        assert_eq!(read(b"").await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_long_record_is_refused_at_its_mark() {
        let most = fragment(fragment_header::MASK, true, b"");
        assert!(matches!(read(&most).await, Err(RecordError::TooLong { .. })));
        let sum = [fragment(5, false, b"abcde"), fragment(4, true, b"")].concat();
        assert!(matches!(read(&sum).await, Err(RecordError::TooLong { length: 9, most: 8 })));
        let endless: Vec<u8> = fragment(0, false, b"").repeat(MAX_FRAGMENTS as usize + 1);
        assert!(matches!(read(&endless).await, Err(RecordError::TooManyFragments)));
    }

    #[tokio::test]
    async fn a_connection_that_ends_inside_a_record_is_an_error() {
        for wire in [vec![0x80, 0], fragment(4, true, b"abc"), fragment(2, false, b"ab")] {
            assert!(matches!(read(&wire).await, Err(RecordError::Io(_))), "{wire:?}");
        }
    }
}
