//! Writes at an offset, to the last byte.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

/// Write all bytes at an offset.
pub(super) fn write_at(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> std::result::Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
