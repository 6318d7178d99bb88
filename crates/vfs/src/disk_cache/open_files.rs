//! The open files of a process: a bounded table, least recently used out first.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::folder::{CacheFolder, FileName};
use super::object_files::{ObjectFiles, UseError, UseGuard};
use crate::version::ObjectVersion;

/// Object versions with open files, two descriptors each. Well below the usual limit of 1,024 descriptors.
const OPEN: usize = 128;

#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    table: Mutex<HashMap<FileName, Arc<ObjectFiles>>>,
    uses: AtomicU64,
}

impl OpenFiles {
    /// Do something with the files of an object version. None when the cache has none, or an evictor holds them.
    pub(super) fn with<T>(
        &self,
        folder: &CacheFolder,
        object: &ObjectVersion,
        create: bool,
        mut action: impl FnMut(&UseGuard<'_>) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        // The files may go between opening and use, and again.
        for _ in 0..3 {
            let Some(files) = self.get(folder, object, create)? else { return Ok(None) };
            match files.enter() {
                Ok(entered) => return action(&entered).map(Some),
                Err(UseError::Busy) => return Ok(None),
                Err(UseError::Gone) => self.forget(&files),
            }
        }
        Ok(None)
    }

    fn get(&self, folder: &CacheFolder, object: &ObjectVersion, create: bool) -> io::Result<Option<Arc<ObjectFiles>>> {
        let name = FileName::of(object);
        let stamp = self.uses.fetch_add(1, Ordering::Relaxed);
        if let Some(files) = self.table.lock().unwrap_or_else(PoisonError::into_inner).get(&name) {
            files.last_use.store(stamp, Ordering::Relaxed);
            return Ok(Some(Arc::clone(files)));
        }
        let mut opened = ObjectFiles::open(folder, object)?;
        if opened.is_none() && create {
            ObjectFiles::create(folder, object)?;
            opened = ObjectFiles::open(folder, object)?;
        }
        let Some(opened) = opened else { return Ok(None) };
        opened.last_use.store(stamp, Ordering::Relaxed);
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.len() >= OPEN && !table.contains_key(&name) {
            let oldest = table.values().min_by_key(|files| files.last_use.load(Ordering::Relaxed));
            if let Some(oldest) = oldest.map(|files| files.name) {
                table.remove(&oldest);
            }
        }
        // Of two threads that open concurrently the first stays: one open file per process carries the lock.
        Ok(Some(Arc::clone(table.entry(name).or_insert_with(|| Arc::new(opened)))))
    }

    fn forget(&self, gone: &Arc<ObjectFiles>) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.get(&gone.name).is_some_and(|files| Arc::ptr_eq(files, gone)) {
            table.remove(&gone.name);
        }
    }
}
