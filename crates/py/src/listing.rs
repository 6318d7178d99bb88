//! A running listing.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Receiver;

use seqferry_client::list::Page;

use crate::values::{ObjectInfo, interrupted};

#[pyclass(frozen, module = "seqferry._native")]
pub struct Listing {
    pub(crate) runtime: Handle,
    /// None once closed.
    pub(crate) pages: Mutex<Option<Receiver<Page>>>,
}

#[pymethods]
impl Listing {
    fn next(&self, py: Python<'_>, timeout: f64) -> PyResult<Option<Vec<ObjectInfo>>> {
        let timeout = Duration::try_from_secs_f64(timeout.clamp(0.0, 60.0)).unwrap_or_default();
        let page = py.detach(|| {
            let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(pages) = pages.as_mut() else { return Some(None) };
            // None: nothing came in time.
            self.runtime.block_on(async { tokio::time::timeout(timeout, pages.recv()).await.ok() })
        });
        match page {
            None => Ok(Some(Vec::new())),
            Some(None) => Ok(None),
            Some(Some(Ok(objects))) => Ok(Some(objects.into_iter().map(ObjectInfo::from).collect())),
            Some(Some(Err(error))) => {
                self.close();
                Err(interrupted(&error))
            }
        }
    }

    fn close(&self) {
        *self.pages.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
