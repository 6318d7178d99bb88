//! Bytes that all processes together keep in a cache.
//!
//! The usage is one counter in a file. Before it writes bytes, a process takes a grant of some MiB from the counter and
//! spends it block by block, so that most writes need no lock. Each process has a file of its own, locked while it
//! lives, that states its last grant. The evictor sets the counter again from the allocated bytes and the grants of
//! living processes whenever it scan of all files: what a killed process had reserved comes back. The counter is never
//! below the bytes on the disk.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::folder::{CacheFolder, new_file, random_id, shared_file};
use super::{CacheLimits, lock};
use crate::crc::crc32c;
use crate::own_file;

const LEN: usize = 16;
/// Largest grant. Eight processes hold 64 MiB that they may not need.
const GRANT: u64 = 8 << 20;
/// Attempts to lock the counter, 1 ms apart. A lock lasts some microseconds; a stopped process must not stop the
/// others.
const LOCK_ATTEMPTS: u32 = 200;
/// Suffix of the files that state the grants.
const GRANTS: &str = ".grant";

#[derive(Debug)]
pub(super) struct Usage {
    folder: CacheFolder,
    file: File,
    grant: Mutex<Grant>,
}

/// Bytes that this process has reserved.
#[derive(Debug, Default)]
struct Grant {
    /// Reserved and not spent yet.
    left: u64,
    /// Spent on blocks that are being written: a scan of all files may not have seen them.
    writing: u64,
    /// The file that states the last grant, made with the first one.
    stated: Option<(PathBuf, File)>,
}

/// Space for new bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpaceReservation {
    /// Reserved.
    Granted {
        /// The evictor should free space soon.
        scarce: bool,
    },
    /// The cache is at its limit, or the counter is held by another process.
    None,
}

impl Usage {
    pub(super) fn open(folder: &CacheFolder) -> io::Result<Self> {
        let file = shared_file(&folder.file("usage"))?;
        Ok(Self { folder: folder.clone(), file, grant: Mutex::default() })
    }

    /// The counter now. A missing or damaged counter is 0 until the next rebuild.
    pub(super) fn read(&self) -> u64 {
        let mut bytes = [0; LEN];
        match self.file.read_exact_at(&mut bytes, 0) {
            Ok(()) => decode(bytes),
            Err(_) => 0,
        }
    }

    /// Do something while no other thread or process does. None when the lock stays taken.
    fn locked<T>(
        &self,
        grant: &mut MutexGuard<'_, Grant>,
        action: impl FnOnce(&mut Grant) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        for _ in 0..LOCK_ATTEMPTS {
            match self.file.try_lock() {
                Ok(()) => {
                    let result = action(grant);
                    self.file.unlock()?;
                    return result.map(Some);
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
                Err(TryLockError::Error(cause)) => return Err(cause),
            }
        }
        Ok(None)
    }

    fn write(&self, used: u64) -> io::Result<()> {
        self.file.write_all_at(&encode(used), 0)
    }

    /// Reserve bytes before they are written.
    pub(super) fn reserve(&self, bytes: u64, limits: &CacheLimits) -> io::Result<SpaceReservation> {
        let mut grant = lock(&self.grant);
        let mut scarce = false;
        if grant.left < bytes {
            let free = self.folder.space()?;
            let spare = free.saturating_sub(limits.min_free);
            let missing = bytes - grant.left;
            let wanted = missing.max(GRANT.min(limits.max_size / 64));
            let used = self.locked(&mut grant, |grant| {
                let used = self.read();
                let room = limits.max_size.saturating_sub(used).min(spare);
                let granted = if room >= wanted { wanted } else { missing };
                if granted > room {
                    return Ok(None);
                }
                self.state(grant, grant.left + grant.writing + granted)?;
                self.write(used + granted)?;
                grant.left += granted;
                Ok(Some(used + granted))
            })?;
            let Some(used) = used.flatten() else { return Ok(SpaceReservation::None) };
            scarce = limits.is_scarce(used, free.saturating_sub(wanted));
        }
        grant.left -= bytes;
        grant.writing += bytes;
        Ok(SpaceReservation::Granted { scarce })
    }

    /// State the grant of this process where others see it, and lose it with the process.
    fn state(&self, grant: &mut Grant, bytes: u64) -> io::Result<()> {
        if grant.stated.is_none() {
            let path = self.folder.file(&format!("{}-{:016x}{GRANTS}", std::process::id(), random_id()));
            let file = new_file(&path)?;
            file.lock()?;
            grant.stated = Some((path, file));
        }
        match &grant.stated {
            Some((_, file)) => file.write_all_at(&encode(bytes), 0),
            None => Ok(()),
        }
    }

    /// Give back bytes that were reserved and not written.
    pub(super) fn release(&self, bytes: u64) {
        self.written(bytes);
        lock(&self.grant).left += bytes;
    }

    /// Reserved bytes are on the disk.
    pub(super) fn written(&self, bytes: u64) {
        let mut grant = lock(&self.grant);
        grant.writing = grant.writing.saturating_sub(bytes);
    }

    /// The counter, and the grants of living processes, as they are at one moment. Files of dead processes are removed.
    pub(super) fn snapshot(&self) -> io::Result<Option<(u64, u64)>> {
        self.locked(&mut lock(&self.grant), |_| {
            let mut grants = 0;
            for entry in std::fs::read_dir(self.folder.root())? {
                let path = entry?.path();
                if !path.to_string_lossy().ends_with(GRANTS) {
                    continue;
                }
                let Ok(file) = own_file::open(&path, OpenOptions::new().read(true)) else { continue };
                if file.try_lock().is_ok() {
                    let _ = std::fs::remove_file(&path);
                    let _ = file.unlock();
                    continue;
                }
                let mut bytes = [0; LEN];
                grants += if file.read_exact_at(&mut bytes, 0).is_ok() { decode(bytes) } else { GRANT };
            }
            Ok((self.read(), grants))
        })
    }

    /// Set the counter after a scan of all files that began with this snapshot and found `on_disk` bytes.
    ///
    /// Bytes written meanwhile came from the grants before and those given since: the new value is never below the
    /// truth.
    pub(super) fn rebuild(&self, on_disk: u64, (counter, grants): (u64, u64)) -> io::Result<()> {
        self.locked(&mut lock(&self.grant), |_| self.write(on_disk + grants + self.read().saturating_sub(counter)))
            .map(|_| ())
    }

    /// Take removed bytes off the counter.
    pub(super) fn subtract(&self, bytes: u64) -> io::Result<()> {
        self.locked(&mut lock(&self.grant), |_| self.write(self.read().saturating_sub(bytes))).map(|_| ())
    }

    /// Give the unspent grant back.
    pub(super) fn close(&self) {
        let mut grant = lock(&self.grant);
        let Some((path, _file)) = grant.stated.take() else { return };
        let left = std::mem::take(&mut grant.left);
        // An error leaves a counter that is too high until the next scan of all files.
        let _ = self.locked(&mut grant, |_| self.write(self.read().saturating_sub(left)));
        let _ = std::fs::remove_file(path);
    }
}

fn encode(used: u64) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes[..8].copy_from_slice(&used.to_le_bytes());
    bytes[8..12].copy_from_slice(b"used");
    let crc = crc32c(&bytes[..12]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: [u8; LEN]) -> u64 {
    let (body, crc) = bytes.split_at(12);
    let used = u64::from_le_bytes([body[0], body[1], body[2], body[3], body[4], body[5], body[6], body[7]]);
    if crc == crc32c(body).to_le_bytes() { used } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_counter_counts_as_empty() {
        let good = encode(12_345);
        assert_eq!(decode(good), 12_345);
        for at in 0..LEN {
            let mut damaged = good;
            damaged[at] ^= 4;
            assert_eq!(decode(damaged), 0);
        }
        assert_eq!(decode([0; LEN]), 0);
    }
}
