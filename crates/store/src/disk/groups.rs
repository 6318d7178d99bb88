//! Whole files, several at a time, written by one thread.
//!
//! To sync a file, a thread waits for the file system's journal. Each write to the journal wakes all threads that wait
//! for it. Dozens of threads with one file each spend more time on these wake-ups than on their files
//! (`docs/develop/performance.md`). So a thread takes all files that wait when it begins, and writes them together
//! ([`super::write::put_all`]); files that arrive meanwhile form the next group. Another thread begins when more files
//! wait than a group should have. Where each file takes long, as on a file server, the number of threads follows the
//! work.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::disk_failure::Result;
use super::write::PutRequest;
use crate::types::WrittenObject;

/// Number of waiting objects beyond which another thread begins.
const ENOUGH: usize = 8;
/// Largest number of objects in a group.
const MOST: usize = 16;
/// Open files of all groups. Every thread has at least one.
const FILES: usize = 64;
/// Largest number of threads.
const WRITERS: usize = 32;

/// Sends the result of a write to its caller.
type ResultSender = oneshot::Sender<Result<WrittenObject>>;

/// Objects that wait to be written, in groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(PutRequest, ResultSender)>,
    writers: usize,
    /// Files that are being written.
    open: usize,
}

impl Groups {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queue an object. Returns the receiver of its result, and true when the caller must have [`Groups::write`]
    /// called.
    pub(super) fn add(&self, whole: PutRequest) -> (oneshot::Receiver<Result<WrittenObject>>, bool) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state();
        state.waiting.push_back((whole, sender));
        let begins = state.writers == 0 || (state.waiting.len() > ENOUGH && state.writers < WRITERS);
        state.writers += usize::from(begins);
        (receiver, begins)
    }

    /// Write group after group until nothing waits.
    pub(super) fn write(&self, put_all: impl Fn(&[PutRequest]) -> Vec<Result<WrittenObject>>) {
        let mut writer = Writer { groups: self, open: 0, done: false };
        while let Some((group, senders)) = writer.next() {
            for (sender, result) in senders.into_iter().zip(put_all(&group)) {
                // The receiver may have been dropped.
                let _receiver_is_gone = sender.send(result);
            }
        }
    }
}

/// A thread that writes.
struct Writer<'a> {
    groups: &'a Groups,
    /// Files of its group.
    open: usize,
    done: bool,
}

impl Writer<'_> {
    fn next(&mut self) -> Option<(Vec<PutRequest>, Vec<ResultSender>)> {
        let mut state = self.groups.state();
        state.open -= self.open;
        self.open = 0;
        if state.waiting.is_empty() {
            state.writers -= 1;
            self.done = true;
            return None;
        }
        let room = FILES.saturating_sub(state.open).max(1);
        self.open = state.waiting.len().min(MOST).min(room);
        state.open += self.open;
        Some(state.waiting.drain(..self.open).unzip())
    }
}

impl Drop for Writer<'_> {
    /// Runs after a panic: the waiters see their channels close.
    fn drop(&mut self) {
        if !self.done {
            let mut state = self.groups.state();
            state.writers -= 1;
            state.open -= self.open;
            state.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::PutObject;

    fn whole(key: &str) -> PutRequest {
        PutRequest { object: PutObject { key: key.to_owned(), ..PutObject::default() }, body: bytes::Bytes::new() }
    }

    fn written_object(whole: &PutRequest) -> WrittenObject {
        WrittenObject { etag: whole.object.key.clone(), version_id: None, checksum: None, encryption: None }
    }

    fn add(groups: &Groups, keys: std::ops::Range<usize>) -> (Vec<oneshot::Receiver<Result<WrittenObject>>>, usize) {
        let (receivers, begin): (Vec<_>, Vec<_>) = keys.map(|key| groups.add(whole(&key.to_string()))).unzip();
        (receivers, begin.into_iter().filter(|begins| *begins).count())
    }

    #[test]
    fn one_thread_writes_until_more_wait_than_a_group_should_have() {
        let groups = Groups::default();
        let (first, begins) = add(&groups, 0..ENOUGH);
        assert_eq!(begins, 1);
        let (more, begins) = add(&groups, ENOUGH..ENOUGH + 1000);
        assert_eq!(begins, WRITERS - 1, "and never more than so many threads");

        let sizes = Mutex::new(Vec::new());
        for _ in 0..WRITERS {
            groups.write(|group| {
                sizes.lock().unwrap().push(group.len());
                group.iter().map(written_object).map(Ok).collect()
            });
        }

        for (key, receiver) in first.into_iter().chain(more).enumerate() {
            assert_eq!(receiver.blocking_recv().unwrap().unwrap().etag, key.to_string());
        }
        assert!(sizes.into_inner().unwrap().iter().all(|size| (1..=MOST).contains(size)));
        assert_eq!(add(&groups, 0..1).1, 1, "all threads have ended");
    }

    #[test]
    fn what_comes_while_a_group_is_written_is_the_next_group() {
        let groups = Groups::default();
        let (receivers, _) = add(&groups, 0..1);
        let later = Mutex::new(Vec::new());
        let seen = Mutex::new(Vec::new());

        groups.write(|group| {
            let mut seen = seen.lock().unwrap();
            seen.push(group.len());
            if seen.len() == 1 {
                let (more, begins) = add(&groups, 1..5);
                assert_eq!(begins, 0);
                later.lock().unwrap().extend(more);
            }
            group.iter().map(written_object).map(Ok).collect()
        });

        assert_eq!(seen.into_inner().unwrap(), [1, 4]);
        assert_eq!(
            receivers.into_iter().chain(later.into_inner().unwrap()).filter_map(|one| one.blocking_recv().ok()).count(),
            5
        );
    }

    #[test]
    fn nobody_waits_for_a_thread_that_has_panicked() {
        let groups = Groups::default();
        let (receivers, _) = add(&groups, 0..5);

        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            groups.write(|_| panic!("as nothing of ours does"));
        }));

        assert!(panicked.is_err());
        assert!(receivers.into_iter().all(|one| one.blocking_recv().is_err()), "all are told that nothing will come");
        assert_eq!(add(&groups, 0..1).1, 1, "and the next one begins anew");
        assert_eq!(groups.state().open, 0);
    }

    #[test]
    fn all_threads_together_have_so_many_files_open_and_each_has_one() {
        // Each takes its group while those before it are at theirs.
        fn begin(groups: &Groups, sizes: &Mutex<Vec<usize>>, writers: usize) {
            let begun = Mutex::new(false);
            groups.write(|group| {
                if !std::mem::replace(&mut *begun.lock().unwrap(), true) {
                    sizes.lock().unwrap().push(group.len());
                    if writers > 1 {
                        begin(groups, sizes, writers - 1);
                    }
                }
                group.iter().map(written_object).map(Ok).collect()
            });
        }

        let groups = Groups::default();
        let (_told, _) = add(&groups, 0..1000);
        let sizes = Mutex::new(Vec::new());

        begin(&groups, &sizes, WRITERS);

        let sizes = sizes.into_inner().unwrap();
        assert_eq!(sizes[..FILES / MOST], [MOST; FILES / MOST]);
        assert!(sizes[FILES / MOST..].iter().all(|size| *size == 1), "{sizes:?}");
        assert_eq!(sizes.len(), WRITERS);
        assert_eq!(groups.state().open, 0);
    }
}
