//! Random calls against a simple reference: a stored block is there with its bytes until a call removes it.

use std::collections::HashSet;

use proptest::prelude::*;
use seqferry_vfs::disk_cache::{Admission, DiskCache, Fill, Prefix};

use crate::support::{Scratch, block, limits, object};

#[derive(Debug, Clone)]
enum Operation {
    Fill { object: usize, block: u64 },
    Read { object: usize, first: u64, count: u64 },
    Reopen,
    Evict,
    Remove { object: usize },
    Verify,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0..4_usize, 0..150_u64).prop_map(|(object, block)| Operation::Fill { object, block }),
        6 => (0..4_usize, 0..150_u64, 0..80_u64).prop_map(|(object, first, count)| Operation::Read { object, first, count }),
        1 => Just(Operation::Reopen),
        1 => Just(Operation::Evict),
        1 => (0..4_usize).prop_map(|object| Operation::Remove { object }),
        1 => Just(Operation::Verify),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stored_block_is_there_until_it_is_removed(operations in proptest::collection::vec(operation(), 1..80)) {
        let scratch = Scratch::new();
        let objects: Vec<_> = [0, 1, 300_000, 18_000_000].into_iter().map(|size| object(&format!("{size}"), size)).collect();
        let mut cache: DiskCache = scratch.open(limits(1 << 30));
        let mut there: HashSet<(usize, u64)> = HashSet::new();
        for operation in operations {
            match operation {
                Operation::Fill { object: at, block: number } => {
                    let object = &objects[at];
                    let fill = cache.fill(object, number, &block(object, number), Admission::Always);
                    let expected = match (number < object.blocks(), there.insert((at, number))) {
                        (false, _) => { there.remove(&(at, number)); Fill::Refused }
                        (true, true) => Fill::Stored,
                        (true, false) => Fill::AlreadyThere,
                    };
                    prop_assert_eq!(fill, expected);
                }
                Operation::Read { object: at, first, count } => {
                    let object = &objects[at];
                    let read = cache.read(object, first, count);
                    let expected: Vec<_> = (first..object.blocks().min(first + count))
                        .map(|number| there.contains(&(at, number)).then(|| block(object, number)))
                        .collect();
                    prop_assert!(read == expected, "{:?} {}+{}", object.key, first, count);
                }
                Operation::Reopen => {
                    drop(cache);
                    cache = scratch.open(limits(1 << 30));
                }
                Operation::Evict => { cache.evict().unwrap(); }
                Operation::Remove { object: at } => {
                    let prefix = Prefix {
                        endpoint: objects[at].endpoint.to_string(),
                        bucket: objects[at].bucket.to_string(),
                        prefix: objects[at].key.to_string(),
                    };
                    cache.remove(Some(&prefix)).unwrap();
                    there.retain(|(object, _)| !objects[*object].key.starts_with(&prefix.prefix));
                }
                Operation::Verify => {
                    let (mut sound, mut damaged) = (0, 0);
                    cache.verify(None, |result| { sound += result.sound; damaged += result.damaged; }).unwrap();
                    prop_assert_eq!((sound, damaged), (there.len() as u64, 0));
                }
            }
        }
    }
}
