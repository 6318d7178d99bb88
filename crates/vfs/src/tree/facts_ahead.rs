//! Facts learned ahead: a program that asks for the files of a directory in the order of their names (`ls -l`, `find`)
//! would wait for one answer after the other.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use super::{FileKind, Tree};

/// Directories that are followed at a time.
const WALKS: usize = 64;
/// Names that a program may leave out and still goes in their order.
const SKIPPED: usize = 16;
/// Names ahead at first, and at most.
const FIRST: usize = 32;
const MOST: usize = 1024;

/// Progress of a program through one directory, in ranks of its names.
#[derive(Debug)]
pub(super) struct DirectoryWalk {
    directory: u64,
    last: usize,
    /// Names before this rank were requested.
    reach: usize,
    window: usize,
}

impl DirectoryWalk {
    /// A name was requested. Returns the ranks that are to be learned now.
    fn step(&mut self, rank: usize) -> std::ops::Range<usize> {
        if rank == self.last {
            return 0..0;
        }
        let is_next = rank > self.last && rank <= self.last + SKIPPED;
        self.last = rank;
        if !is_next {
            (self.reach, self.window) = (rank + 1, FIRST);
            return 0..0;
        }
        // Half of the window is left.
        if rank + self.window / 2 < self.reach {
            return 0..0;
        }
        let from = self.reach.max(rank + 1);
        self.reach = rank + 1 + self.window;
        self.window = MOST.min(self.window * 2);
        from..self.reach
    }
}

/// The directories that are followed.
#[derive(Debug, Default)]
pub(super) struct DirectoryWalks(VecDeque<DirectoryWalk>);

impl DirectoryWalks {
    fn step(&mut self, directory: u64, rank: usize) -> std::ops::Range<usize> {
        if let Some(walk) = self.0.iter_mut().find(|walk| walk.directory == directory) {
            return walk.step(rank);
        }
        if self.0.len() >= WALKS {
            self.0.pop_front();
        }
        self.0.push_back(DirectoryWalk { directory, last: rank, reach: rank + 1, window: FIRST });
        0..0
    }
}

impl Tree {
    /// A name of a directory is requested: learn what is likely to be requested next.
    pub(super) fn ask_ahead(self: &Arc<Self>, directory: u64, name: &str) {
        let snapshot = {
            let state = self.read();
            let Some(place) = state.places.directory(directory) else { return };
            state.directories[place as usize].snapshot.clone()
        };
        let Some(snapshot) = snapshot else { return };
        let Ok(rank) = snapshot.rank(name) else { return };
        let ranks = self.walks.lock().unwrap_or_else(PoisonError::into_inner).step(directory, rank);
        self.ask_ranks(&snapshot, ranks);
    }

    /// Learn the attributes of the names after one, without waiting for them.
    pub fn learn_after(self: &Arc<Self>, directory: u64, name: &str) {
        let snapshot = {
            let state = self.read();
            let Some(place) = state.places.directory(directory) else { return };
            state.directories[place as usize].snapshot.clone()
        };
        let Some(snapshot) = snapshot else { return };
        let from = snapshot.rank(name).map_or_else(|at| at, |at| at + 1);
        self.ask_ranks(&snapshot, from..from + MOST);
    }

    fn ask_ranks(self: &Arc<Self>, snapshot: &super::snapshot::Snapshot, ranks: std::ops::Range<usize>) {
        if ranks.is_empty() {
            return;
        }
        let unknown: Vec<u64> = {
            let state = self.read();
            let entries = snapshot.ranked(ranks.start).take(ranks.len());
            let files = entries.filter(|entry| entry.kind != FileKind::Directory);
            let unknown = files.filter(|entry| state.stated(entry.inode, &entry.facts()).is_none());
            unknown.map(|entry| entry.inode).collect()
        };
        for inode in unknown {
            drop(self.begin_request(inode));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_their_order_are_learned_ahead_and_others_are_not() {
        let mut walks = DirectoryWalks::default();
        assert_eq!(walks.step(1, 5), 0..0, "the first name says nothing");
        assert_eq!(walks.step(1, 6), 7..39);
        assert_eq!(walks.step(1, 6), 0..0, "the same name again");
        let mut learned = 39;
        for rank in 7..5000 {
            let ranks = walks.step(1, rank);
            if !ranks.is_empty() {
                assert_eq!(ranks.start, learned, "each name once");
                learned = ranks.end;
            }
            assert!(learned > rank, "before it is asked for");
            assert!(learned <= rank + 1 + MOST);
        }
        assert_eq!(walks.step(2, 0), 0..0, "another directory");
        assert_eq!((walks.step(1, 9000), walks.step(1, 3), walks.step(1, 20)), (0..0, 0..0, 0..0), "out of order");
        for directory in 3..200 {
            walks.step(directory, 0);
        }
        assert_eq!(walks.0.len(), WALKS);
    }
}
