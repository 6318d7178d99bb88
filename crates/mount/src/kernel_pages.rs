//! The page cache of the kernel as a place for bytes that memory has no space for.
//!
//! A thread of its own writes them: the kernel lets it wait while a read of the same page is being answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use fuser::{INodeNo, Notifier};
use seqferry_vfs::PageCache;

/// Bytes on their way to the kernel at most. They are part of the memory for file contents: reads that wait for memory
/// have the rest of it.
const WAITING: u64 = 8 << 20;

/// Bytes of a file for the kernel.
struct Pages {
    inode: u64,
    offset: u64,
    bytes: Bytes,
    _lease: Box<dyn Send>,
}

/// See the module. The thread ends with this value.
#[derive(Debug)]
pub(crate) struct KernelPages {
    queue: Sender<Pages>,
    waiting: Arc<AtomicU64>,
}

impl KernelPages {
    /// Start the thread that fills the page cache of a mount.
    pub(crate) fn start(notifier: Notifier) -> std::io::Result<Arc<Self>> {
        let (queue, pages) = channel();
        let waiting = Arc::new(AtomicU64::new(0));
        let left = Arc::clone(&waiting);
        std::thread::Builder::new().name("seqferry-pages".into()).spawn(move || write(&notifier, &pages, &left))?;
        Ok(Arc::new(Self { queue, waiting }))
    }
}

impl PageCache for KernelPages {
    fn keep(&self, inode: u64, offset: u64, bytes: Bytes, lease: Box<dyn Send>) -> bool {
        if !self.is_ready() {
            return false;
        }
        self.waiting.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.queue.send(Pages { inode, offset, bytes, _lease: lease }).is_ok()
    }

    fn is_ready(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < WAITING
    }
}

fn write(notifier: &Notifier, queue: &Receiver<Pages>, waiting: &AtomicU64) {
    while let Ok(pages) = queue.recv() {
        // A kernel that does not take them reads them again.
        let _kept = notifier.store(INodeNo(pages.inode), pages.offset, &pages.bytes);
        waiting.fetch_sub(pages.bytes.len() as u64, Ordering::Relaxed);
    }
}
