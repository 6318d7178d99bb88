//! What a service turned out to get wrong, remembered for as long as the process talks to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seqferry_store::ObjectStore;

/// Learned while working; every entry has a way round it.
#[derive(Debug, Default)]
pub struct Quirks {
    /// Part copies are answered with the checksum of the whole source instead of the part's (versitygw 1.8, where source and
    /// upload have the same algorithm). The object would then get a wrong checksum, or none could complete it. Way round: an
    /// upload without a checksum of our choosing. Or with none at all, and Complete then wants them (MinIO): the same way.
    useless_part_checksums: AtomicBool,
    /// The same part of the same bytes got two `ETag`s. Way round: never have the same part under way twice.
    changing_part_etags: AtomicBool,
}

impl Quirks {
    /// Whether checksums of copied parts are known to be wrong or missing.
    pub fn useless_part_checksums(&self) -> bool {
        self.useless_part_checksums.load(Ordering::Relaxed)
    }

    /// Checksums of copied parts turned out to be wrong or missing.
    pub fn learn_useless_part_checksums(&self) {
        self.useless_part_checksums.store(true, Ordering::Relaxed);
    }

    /// Whether the same part may get two `ETag`s.
    pub fn changing_part_etags(&self) -> bool {
        self.changing_part_etags.load(Ordering::Relaxed)
    }

    /// The same part got two `ETag`s.
    pub fn learn_changing_part_etags(&self) {
        self.changing_part_etags.store(true, Ordering::Relaxed);
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
