//! What a service turned out to get wrong, remembered for as long as the process talks to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seqferry_store::ObjectStore;

/// Learned while working; every entry has a way round it.
#[derive(Debug, Default)]
pub struct Quirks {
    /// Part copies are answered with the checksum of the whole source instead of the part's (versitygw 1.8, where source and
    /// upload have the same algorithm). The object would then get a wrong checksum, or none could complete it. Way round: an
    /// upload without a checksum of our choosing.
    wrong_part_checksums: AtomicBool,
}

impl Quirks {
    /// Whether part checksums are known to be wrong.
    pub fn wrong_part_checksums(&self) -> bool {
        self.wrong_part_checksums.load(Ordering::Relaxed)
    }

    /// Part checksums turned out to be wrong.
    pub fn learn_wrong_part_checksums(&self) {
        self.wrong_part_checksums.store(true, Ordering::Relaxed);
    }
}

/// A store, and what was learned of its service.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// Shared by all who talk to it.
    pub quirks: Arc<Quirks>,
}

impl Connection {
    /// A store of which nothing is known yet.
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self { store, quirks: Arc::default() }
    }
}
