//! Pinned prefixes: their objects are kept by the evictor. One JSON file, replaced by rename under a lock.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::folder::{CacheFolder, new_file, shared_file};
use crate::version::{ObjectVersion, VersionPin};

/// Objects by the start of their key. `endpoint`, `bucket` and prefix are compared byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefix {
    /// Endpoint, as in [`ObjectVersion::endpoint`].
    pub endpoint: String,
    /// Bucket.
    pub bucket: String,
    /// Start of the keys; empty for the whole bucket.
    pub prefix: String,
}

impl Prefix {
    /// A number that stands for this prefix in the name of a file.
    pub(super) fn digest(&self) -> u64 {
        let (endpoint, bucket, key) = (self.endpoint.as_str(), self.bucket.as_str(), self.prefix.as_str());
        let pin = VersionPin::Etag("prefix".into());
        ObjectVersion { endpoint: endpoint.into(), bucket: bucket.into(), key: key.into(), pin, size: 0 }
            .digest()
            .short()
    }

    /// Returns true when the object lies below this prefix.
    pub fn contains(&self, object: &ObjectVersion) -> bool {
        self.endpoint == *object.endpoint && self.bucket == *object.bucket && object.key.starts_with(&self.prefix)
    }
}

#[derive(Debug)]
pub(super) struct Pins {
    path: PathBuf,
    lock: PathBuf,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PinFile {
    pins: Vec<Prefix>,
}

impl Pins {
    pub(super) fn new(folder: &CacheFolder) -> Self {
        Self { path: folder.file("pins.json"), lock: folder.file("pins.lock") }
    }

    /// The pinned prefixes. A damaged file is an error: the evictor then keeps everything rather than what was pinned.
    pub(super) fn read(&self) -> io::Result<Vec<Prefix>> {
        match crate::own_file::read(&self.path) {
            Ok(bytes) => Ok(serde_json::from_slice::<PinFile>(&bytes)?.pins),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(cause) => Err(cause),
        }
    }

    /// Change the pinned prefixes; under a lock between processes.
    pub(super) fn update(&self, folder: &CacheFolder, change: impl FnOnce(&mut Vec<Prefix>)) -> io::Result<()> {
        let file: File = shared_file(&self.lock)?;
        file.lock()?;
        let result = self.update_locked(folder, change);
        file.unlock()?;
        result
    }

    fn update_locked(&self, folder: &CacheFolder, change: impl FnOnce(&mut Vec<Prefix>)) -> io::Result<()> {
        // Damage must not make pinning impossible: what was pinned is unknown then.
        let mut pins = self.read().unwrap_or_default();
        change(&mut pins);
        pins.sort();
        pins.dedup();
        let bytes = serde_json::to_vec_pretty(&PinFile { pins })?;
        let new = folder.new_path();
        let written = new_file(&new).and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()));
        let result = written.and_then(|()| std::fs::rename(&new, &self.path));
        if result.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        result
    }
}
