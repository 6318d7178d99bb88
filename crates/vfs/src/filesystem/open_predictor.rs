//! Guesses what will be opened next: small files of a directory in order, and the index beside a genomic file.
//!
//! Three opens in the order of the names, or of the inodes, begin the read-ahead; the first one out of order ends it.

use std::collections::VecDeque;

use super::{FileSystem, lock};
use crate::reader::{Pattern, Prefetch, WHOLE_OBJECT};
use crate::tree::WalkOrder;

/// Directories that are followed at a time.
const WALKS: usize = 16;
/// Files in order before anything is fetched ahead.
const RUN: u32 = 2;
/// Files ahead at first, and at most.
const FIRST: usize = 4;
const MOST: usize = 64;
/// Indexes that are fetched ahead at a time, and the largest one.
const INDEXES: usize = 16;
const LARGEST_INDEX: u64 = 16 << 20;

/// Endings of files that are read through an index, and those of their indexes: added to the name, or in place of the
/// ending.
const INDEXED: &[(&str, &[&str])] = &[
    (".bam", &[".bai", ".csi"]),
    (".cram", &[".crai"]),
    (".vcf.gz", &[".tbi", ".csi"]),
    (".bcf", &[".csi"]),
    (".bed.gz", &[".tbi", ".csi"]),
    (".fa", &[".fai"]),
    (".fasta", &[".fai"]),
    (".fa.gz", &[".fai", ".gzi"]),
    (".fasta.gz", &[".fai", ".gzi"]),
];

/// Endings in [`INDEXED`] of files without compression in blocks. Programs read them in steps of any size.
const PLAIN: &[&str] = &[".fa", ".fasta"];

#[derive(Debug, Default)]
pub(super) struct OpenPredictor {
    walks: VecDeque<OpenSequence>,
    indexes: VecDeque<Prefetch>,
}

/// Progress of a program through one directory.
#[derive(Debug)]
struct OpenSequence {
    directory: u64,
    /// Next inode in the order of names and of inodes, each with the number of opens in a row that came as expected.
    expected: [(Option<u64>, u32); 2],
    ahead: VecDeque<(u64, Prefetch)>,
}

const ORDERS: [WalkOrder; 2] = [WalkOrder::Name, WalkOrder::Inode];

impl FileSystem {
    /// Fetches the files that are likely to be opened after this one. Returns the pattern in which this one is likely
    /// to be read.
    pub(super) fn predict(&self, inode: u64) -> Pattern {
        let Ok((directory, name)) = self.tree.name_of(inode) else { return Pattern::Unknown };
        let pattern = self.predict_index(inode, &name);
        self.predict_walk(inode, directory);
        pattern
    }

    fn predict_walk(&self, inode: u64, directory: u64) {
        let mut open_predictor = lock(&self.open_predictor);
        let found = open_predictor.walks.iter().position(|walk| walk.directory == directory);
        let mut walk = found.and_then(|index| open_predictor.walks.remove(index)).unwrap_or(OpenSequence {
            directory,
            expected: [(None, 0); 2],
            ahead: VecDeque::new(),
        });
        let mut best = None;
        for (order, (expected, run)) in ORDERS.into_iter().zip(&mut walk.expected) {
            *run = if *expected == Some(inode) { *run + 1 } else { 0 };
            let next = self.tree.following(inode, order, 1).unwrap_or_default();
            *expected = next.first().map(|(next, _)| *next);
            if *run >= RUN && best.is_none_or(|(_, longest)| *run > longest) {
                best = Some((order, *run));
            }
        }
        match best {
            None => walk.ahead.clear(),
            Some((order, run)) => {
                walk.ahead.retain(|(ahead, _)| *ahead != inode);
                let window = FIRST.checked_shl(run - RUN).unwrap_or(MOST).min(MOST);
                for (next, size) in self.tree.following(inode, order, window).unwrap_or_default() {
                    let is_ahead = walk.ahead.iter().any(|(ahead, _)| *ahead == next);
                    if is_ahead || size == 0 || size > WHOLE_OBJECT || self.tree.is_archived(next) {
                        continue;
                    }
                    let Ok(object) = self.object(next) else { continue };
                    // No memory to spare: the reads themselves need it.
                    let Some(fetch) = self.reader.prefetch(&object) else { break };
                    walk.ahead.push_back((next, fetch));
                }
            }
        }
        open_predictor.walks.push_back(walk);
        if open_predictor.walks.len() > WALKS {
            open_predictor.walks.pop_front();
        }
    }

    fn predict_index(&self, inode: u64, name: &str) -> Pattern {
        // The longest ending first: .fa.gz is not .gz.
        let endings = INDEXED.iter().find(|(ending, _)| name.ends_with(ending));
        let Some((ending, indexes)) = endings else { return Pattern::Unknown };
        let mut pattern = Pattern::Unknown;
        let stem = name.strip_suffix(ending).unwrap_or(name);
        for index in *indexes {
            for candidate in [format!("{name}{index}"), format!("{stem}{index}")] {
                let Some((found, size)) = self.tree.sibling(inode, &candidate) else { continue };
                if !PLAIN.contains(ending) {
                    pattern = Pattern::Regions;
                }
                if size == 0 || size > LARGEST_INDEX {
                    continue;
                }
                let Ok(object) = self.object(found) else { continue };
                if let Some(fetch) = self.reader.prefetch(&object) {
                    let mut open_predictor = lock(&self.open_predictor);
                    open_predictor.indexes.push_back(fetch);
                    if open_predictor.indexes.len() > INDEXES {
                        open_predictor.indexes.pop_front();
                    }
                }
            }
        }
        pattern
    }
}
