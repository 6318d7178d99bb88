//! Random calls against a simple reference: a block that was stored is there with its bytes until something takes it away.

use std::collections::HashSet;

use proptest::prelude::*;
use seqferry_vfs::disk_cache::{Admission, DiskCache, Fill, Prefix};

use crate::support::{Scratch, block, limits, object};

#[derive(Debug, Clone)]
enum Call {
    Fill { object: usize, block: u64 },
    Read { object: usize, first: u64, count: u64 },
    Reopen,
    Evict,
    Remove { object: usize },
    Verify,
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        8 => (0..4_usize, 0..150_u64).prop_map(|(object, block)| Call::Fill { object, block }),
        6 => (0..4_usize, 0..150_u64, 0..80_u64).prop_map(|(object, first, count)| Call::Read { object, first, count }),
        1 => Just(Call::Reopen),
        1 => Just(Call::Evict),
        1 => (0..4_usize).prop_map(|object| Call::Remove { object }),
        1 => Just(Call::Verify),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stored_block_is_there_until_it_is_removed(calls in proptest::collection::vec(call(), 1..80)) {
        let scratch = Scratch::new();
        let objects: Vec<_> = [0, 1, 300_000, 18_000_000].into_iter().map(|size| object(&format!("{size}"), size)).collect();
        let mut cache: DiskCache = scratch.open(limits(1 << 30));
        let mut there: HashSet<(usize, u64)> = HashSet::new();
        for call in calls {
            match call {
                Call::Fill { object: at, block: number } => {
                    let object = &objects[at];
                    let fill = cache.fill(object, number, &block(object, number), Admission::Always);
                    let expected = match (number < object.blocks(), there.insert((at, number))) {
                        (false, _) => { there.remove(&(at, number)); Fill::Refused }
                        (true, true) => Fill::Stored,
                        (true, false) => Fill::AlreadyThere,
                    };
                    prop_assert_eq!(fill, expected);
                }
                Call::Read { object: at, first, count } => {
                    let object = &objects[at];
                    let read = cache.read(object, first, count);
                    let expected: Vec<_> = (first..object.blocks().min(first + count))
                        .map(|number| there.contains(&(at, number)).then(|| block(object, number)))
                        .collect();
                    prop_assert!(read == expected, "{:?} {}+{}", object.key, first, count);
                }
                Call::Reopen => {
                    drop(cache);
                    cache = scratch.open(limits(1 << 30));
                }
                Call::Evict => { cache.evict().unwrap(); }
                Call::Remove { object: at } => {
                    let prefix = Prefix {
                        endpoint: objects[at].endpoint.to_string(),
                        bucket: objects[at].bucket.to_string(),
                        prefix: objects[at].key.to_string(),
                    };
                    cache.remove(Some(&prefix)).unwrap();
                    there.retain(|(object, _)| !objects[*object].key.starts_with(&prefix.prefix));
                }
                Call::Verify => {
                    let (mut sound, mut damaged) = (0, 0);
                    cache.verify(None, |result| { sound += result.sound; damaged += result.damaged; }).unwrap();
                    prop_assert_eq!((sound, damaged), (there.len() as u64, 0));
                }
            }
        }
    }
}
