//! What a service turned out to get wrong, remembered for as long as the process talks to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seqferry_store::ObjectStore;
use tokio::sync::{Mutex, MutexGuard};

/// Learned while working; every entry has a way round it.
#[derive(Debug, Default)]
pub struct Quirks {
    /// Part copies are answered with the checksum of the whole source instead of the part's (versitygw 1.8, where source and
    /// upload have the same algorithm). The object would then get a wrong checksum, or none could complete it. Way round: an
    /// upload without a checksum of our choosing. Or with none at all, and Complete then wants them (MinIO): the same way.
    useless_part_checksums: AtomicBool,
    /// They were right at least once, or are not told at all: part copies need not wait for each other to find that out.
    part_checksums_tried: AtomicBool,
    /// Held by the one who is about to find out.
    trial: Mutex<()>,
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

    /// Before the first part copies whose checksums may turn out to be wrong: waits for whoever is finding that out. Some: it
    /// is for the caller to find out, with one part, while the others wait. None: it is known.
    pub async fn try_part_checksums(&self) -> Option<Trial<'_>> {
        let known =
            || self.useless_part_checksums.load(Ordering::Relaxed) || self.part_checksums_tried.load(Ordering::Relaxed);
        if known() {
            return None;
        }
        let turn = self.trial.lock().await;
        (!known()).then_some(Trial { quirks: self, _turn: turn })
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

/// The right to find out alone. Dropped without a finding, it leaves that to the next.
#[derive(Debug)]
pub struct Trial<'a> {
    quirks: &'a Quirks,
    _turn: MutexGuard<'a, ()>,
}

impl Trial<'_> {
    /// What the first part showed.
    pub fn found(self, useless: bool) {
        if useless {
            self.quirks.learn_useless_part_checksums();
        } else {
            self.quirks.part_checksums_tried.store(true, Ordering::Relaxed);
        }
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
