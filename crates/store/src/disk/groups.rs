//! Whole files, several at a time by one thread.
//!
//! A file is made sure of by waiting for the file system's journal, and whoever waits for it is woken each time a part of it was written,
//! whosever that was. Dozens of threads with a file each spend more on waking each other than on their files
//! (`docs/performance.md`). So a thread takes all files that wait when it begins, and writes them together
//! ([`super::write::put_all`]); what comes meanwhile is the next group. Another thread begins when more wait than a group
//! should have: where each file takes long, as on a file server, there are as many threads as there is work for.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::fail::Result;
use super::write::Whole;
use crate::types::Written;

/// When more wait, another thread begins.
const ENOUGH: usize = 8;
/// A group has no more: each is open at the same time.
const MOST: usize = 16;
/// Threads at a time.
const WRITERS: usize = 32;

type Tell = oneshot::Sender<Result<Written>>;

/// What waits to be written.
#[derive(Debug, Default)]
pub(super) struct Groups {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(Whole, Tell)>,
    writers: usize,
}

impl Groups {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Have something written. Where it tells what came of it; and whether the caller is to see to it that [`Groups::write`] is called.
    pub(super) fn add(&self, whole: Whole) -> (oneshot::Receiver<Result<Written>>, bool) {
        let (tell, told) = oneshot::channel();
        let mut state = self.state();
        state.waiting.push_back((whole, tell));
        let begins = state.writers == 0 || (state.waiting.len() > ENOUGH && state.writers < WRITERS);
        state.writers += usize::from(begins);
        (told, begins)
    }

    /// Write group after group until nothing waits.
    pub(super) fn write(&self, put_all: impl Fn(&[Whole]) -> Vec<Result<Written>>) {
        let mut writer = Writer { groups: self, done: false };
        while let Some((group, tell)) = writer.next() {
            for (tell, result) in tell.into_iter().zip(put_all(&group)) {
                // Whoever asked may have gone.
                let _nobody_listens = tell.send(result);
            }
        }
    }
}

/// A thread that writes.
struct Writer<'a> {
    groups: &'a Groups,
    done: bool,
}

impl Writer<'_> {
    fn next(&mut self) -> Option<(Vec<Whole>, Vec<Tell>)> {
        let mut state = self.groups.state();
        if state.waiting.is_empty() {
            state.writers -= 1;
            self.done = true;
            return None;
        }
        let size = state.waiting.len().min(MOST);
        Some(state.waiting.drain(..size).unzip())
    }
}

impl Drop for Writer<'_> {
    /// It has panicked: those who wait are told by the loss of their channels, rather than never.
    fn drop(&mut self) {
        if !self.done {
            let mut state = self.groups.state();
            state.writers -= 1;
            state.waiting.clear();
        }
    }
}
