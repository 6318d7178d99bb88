//! The records of a side file that are there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::side_file::{RECORD_LEN, STATE_LEN, SideFileLayout};

/// Call `each` with every record that is not a hole.
pub(super) fn for_each_record(side: &File, layout: SideFileLayout, mut each: impl FnMut(u64, &[u8])) -> io::Result<()> {
    let end = side.metadata()?.len();
    let mut segment = 0;
    while segment < layout.segments() && layout.record(segment) < end {
        let offset = layout.record(segment);
        match rustix::fs::seek(side, rustix::fs::SeekFrom::Data(offset)) {
            Ok(data) => segment = segment.max(layout.segment_at(data)),
            // No data behind this offset.
            Err(rustix::io::Errno::NXIO) => break,
            // A file system that cannot tell: look at every record.
            Err(_) => {}
        }
        if segment >= layout.segments() {
            break;
        }
        let mut record = [0; RECORD_LEN];
        let mut len = 0;
        while len < RECORD_LEN {
            match side.read_at(&mut record[len..], layout.record(segment) + len as u64) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        if record[STATE_LEN..].iter().any(|byte| *byte != 0) {
            each(segment, &record);
        }
        segment += 1;
    }
    Ok(())
}
