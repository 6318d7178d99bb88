//! Mounts that clients have announced. Nothing depends on them: DUMP lists them.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Mounts that are remembered, and those of one client.
const MOST: usize = 4096;
const MAX_PER_CLIENT: usize = 64;

/// Announced mounts, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct MountTable(Mutex<VecDeque<(IpAddr, String)>>);

impl MountTable {
    pub(crate) fn add(&self, client: IpAddr, path: String) {
        let mut mounts = self.lock();
        let mount = (client, path);
        mounts.retain(|known| *known != mount);
        let of_client = mounts.iter().filter(|(other, _)| *other == client).count();
        if of_client >= MAX_PER_CLIENT
            && let Some(oldest) = mounts.iter().position(|(other, _)| *other == client)
        {
            mounts.remove(oldest);
        }
        if mounts.len() >= MOST {
            mounts.pop_front();
        }
        mounts.push_back(mount);
    }

    /// Forget one mount of a client; without a path all of them.
    pub(crate) fn remove(&self, client: IpAddr, path: Option<&str>) {
        let is_meant = |known: &str| path.is_none_or(|path| path == known);
        self.lock().retain(|(other, known)| *other != client || !is_meant(known));
    }

    /// Mounts of a client.
    pub(crate) fn of(&self, client: IpAddr) -> Vec<String> {
        self.lock().iter().filter(|(other, _)| *other == client).map(|(_, path)| path.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(IpAddr, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
