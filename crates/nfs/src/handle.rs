//! Handles: the names of files between a client and this server.
//!
//! A handle holds the export, the file and a signature. It holds nothing of the process: it stays valid after a restart
//! and on another machine with the same key.

use seqferry_share::FileId;

use crate::key::{HandleKey, SIGNATURE};

/// Layout of a handle: version, three zero bytes, generation, export, number of the file, signature.
const VERSION: u8 = 1;
const SIGNED: usize = 24;
/// Bytes of a handle; the protocol allows 64.
pub(crate) const HANDLE: usize = SIGNED + SIGNATURE;

/// Number of an export in handles; clients see it as the number of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExportId(pub(crate) u64);

/// Cause for which a handle is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandleError {
    /// It has not the form of a handle.
    Malformed,
    /// It was signed with another key, or forged.
    Foreign,
}

impl HandleKey {
    /// The number of an export, from what it stands for.
    pub(crate) fn export_id(&self, identity: &str) -> ExportId {
        let signature = self.sign(format!("export:{identity}").as_bytes());
        let mut number = [0; 8];
        number.copy_from_slice(&signature[..8]);
        ExportId(u64::from_be_bytes(number))
    }

    /// The handle of a file.
    pub(crate) fn handle(&self, export: ExportId, file: FileId) -> [u8; HANDLE] {
        let mut handle = [0; HANDLE];
        handle[0] = VERSION;
        handle[4..8].copy_from_slice(&file.generation.to_be_bytes());
        handle[8..16].copy_from_slice(&export.0.to_be_bytes());
        handle[16..SIGNED].copy_from_slice(&file.number.to_be_bytes());
        let signature = self.sign(&handle[..SIGNED]);
        handle[SIGNED..].copy_from_slice(&signature);
        handle
    }

    /// The export and the file of a handle.
    pub(crate) fn read_handle(&self, handle: &[u8]) -> Result<(ExportId, FileId), HandleError> {
        let handle: &[u8; HANDLE] = handle.try_into().map_err(|_| HandleError::Malformed)?;
        if handle[..4] != [VERSION, 0, 0, 0] {
            return Err(HandleError::Malformed);
        }
        let differing = self.sign(&handle[..SIGNED]).iter().zip(&handle[SIGNED..]).fold(0, |all, (a, b)| all | (a ^ b));
        if differing != 0 {
            return Err(HandleError::Foreign);
        }
        let number = |from: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&handle[from..from + 8]);
            u64::from_be_bytes(bytes)
        };
        let mut generation = [0; 4];
        generation.copy_from_slice(&handle[4..8]);
        let file = FileId { number: number(16), generation: u32::from_be_bytes(generation) };
        Ok((ExportId(number(8)), file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_names_its_file_and_no_change_of_a_bit_is_accepted() {
        let key = HandleKey::new([7; 32]);
        let (export, file) = (key.export_id("share"), FileId { number: u64::MAX - 3, generation: 9 });
        let handle = key.handle(export, file);
        assert_eq!(key.read_handle(&handle), Ok((export, file)));
        for bit in 0..handle.len() * 8 {
            let mut forged = handle;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(key.read_handle(&forged).is_err(), "bit {bit}");
        }
        for length in (0..handle.len()).chain([64]) {
            let mut cut = handle.to_vec();
            cut.resize(length, 0);
            assert_eq!(key.read_handle(&cut), Err(HandleError::Malformed), "{length} bytes");
        }
        assert_eq!(HandleKey::new([8; 32]).read_handle(&handle), Err(HandleError::Foreign));
        assert_ne!(key.export_id("other"), export);
    }
}
