//! The secret that signs handles. It is made once for each installation.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::error::ServerError;

/// Bytes of the secret.
const KEY_LENGTH: usize = 32;
/// Block of SHA-256, as HMAC needs it.
const BLOCK: usize = 64;
/// Bytes of a signature in a handle: 2^127 attempts on average to guess one.
pub(crate) const SIGNATURE: usize = 16;

/// Secret that signs the handles of all exports. Handles stay valid as long as it is kept.
#[derive(Clone)]
pub struct HandleKey {
    inner: Sha256,
    outer: Sha256,
}

impl std::fmt::Debug for HandleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HandleKey")
    }
}

impl HandleKey {
    /// A key made of these bytes.
    pub fn new(secret: [u8; KEY_LENGTH]) -> Self {
        let pad = |with: u8| {
            let mut block = [with; BLOCK];
            block.iter_mut().zip(secret).for_each(|(byte, secret)| *byte ^= secret);
            Sha256::new_with_prefix(block)
        };
        Self { inner: pad(0x36), outer: pad(0x5c) }
    }

    /// Reads the key from a file. If the file is missing, a new key is written, readable by its owner alone.
    ///
    /// # Errors
    /// When the file cannot be read or written, or holds something else.
    pub fn open(path: &Path) -> Result<Self, ServerError> {
        let failed = |error: std::io::Error| {
            ServerError(format!("the key of the file handles cannot be kept in {}: {error}", path.display()))
        };
        match fs::read(path) {
            Ok(bytes) => {
                let secret: [u8; KEY_LENGTH] = bytes.as_slice().try_into().map_err(|_| {
                    ServerError(format!(
                        "{} is no key of file handles: it has {} bytes, not {KEY_LENGTH}. Restore it, or remove it and \
                         mount the share again on each client",
                        path.display(),
                        bytes.len()
                    ))
                })?;
                Ok(Self::new(secret))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let secret = random().map_err(failed)?;
                match install(path, &secret) {
                    // Another process has put its own there.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => Self::open(path),
                    other => other.map(|()| Self::new(secret)).map_err(failed),
                }
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// The start of the HMAC-SHA-256 of these bytes.
    pub(crate) fn sign(&self, bytes: &[u8]) -> [u8; SIGNATURE] {
        let inner = self.inner.clone().chain_update(bytes).finalize();
        let outer = self.outer.clone().chain_update(inner).finalize();
        let mut signature = [0; SIGNATURE];
        signature.copy_from_slice(&outer[..SIGNATURE]);
        signature
    }
}

/// Write a key under a name of its own, make it durable, and give it its name; an existing file stays.
fn install(path: &Path, secret: &[u8]) -> std::io::Result<()> {
    let suffix: [u8; 8] = random()?;
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{:016x}", u64::from_be_bytes(suffix)));
    let temporary = Path::new(&name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
    let written = file.write_all(secret).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| fs::hard_link(temporary, path));
    fs::remove_file(temporary)?;
    linked?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// Bytes that cannot be guessed.
pub(crate) fn random<const LENGTH: usize>() -> std::io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn signs_as_rfc_4231_says() {
        // Test case 2, with a key that is padded to 32 bytes as HMAC pads it.
        let mut secret = [0; KEY_LENGTH];
        secret[..4].copy_from_slice(b"Jefe");
        let signature = HandleKey::new(secret).sign(b"what do ya want for nothing?");
        assert_eq!(
            signature,
            [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7]
        );
    }

    #[test]
    fn a_key_is_made_once_and_a_damaged_one_is_refused() {
        let folder = std::env::temp_dir().join(format!("seqferry-key-{:016x}", fastrand::u64(..)));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("handles.key");
        let first = HandleKey::open(&path).unwrap().sign(b"x");
        assert_eq!(HandleKey::open(&path).unwrap().sign(b"x"), first);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no temporary file is left");
        fs::write(&path, b"short").unwrap();
        let refused = HandleKey::open(&path).unwrap_err().to_string();
        assert!(refused.contains("it has 5 bytes, not 32"), "{refused}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
