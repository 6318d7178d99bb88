//! The cache below the memory of a reader.

use std::sync::Arc;

use seqferry_vfs::BlockTier as _;
use seqferry_vfs::disk_cache::{CacheTier, TierOptions};

use crate::support::{Scratch, block, limits, object, size};

#[tokio::test]
async fn a_tier_serves_what_it_was_given_also_after_it_was_opened_anew() {
    let scratch = Scratch::new();
    let a = object("a", size(4));
    {
        let tier = CacheTier::new(Arc::new(scratch.open(limits(1 << 30))), TierOptions::default()).unwrap();
        for number in 0..4 {
            tier.keep(&a, number, &block(&a, number));
        }
        tier.flush().await;
        assert!(tier.load(&a, 3, 2).await == [Some(block(&a, 3))]);
        assert!(tier.load(&a, 4, 1).await.is_empty());
    }
    let tier = CacheTier::new(Arc::new(scratch.open(limits(1 << 30))), TierOptions::default()).unwrap();
    let expected: Vec<_> = (0..4).map(|number| Some(block(&a, number))).collect();
    assert!(tier.load(&a, 0, 4).await == expected);
}

#[tokio::test]
async fn blocks_that_were_handed_over_are_written_when_the_tier_ends() {
    let scratch = Scratch::new();
    let a = object("a", size(100));
    let cache = Arc::new(scratch.open(limits(1 << 30)));
    let tier = CacheTier::new(Arc::clone(&cache), TierOptions { queued: 100, ..TierOptions::default() }).unwrap();
    for number in 0..100 {
        tier.keep(&a, number, &block(&a, number));
    }
    drop(tier);

    assert_eq!(cache.stats().stored + cache.stats().dropped, 100);
    assert_eq!(cache.read(&a, 0, 100).iter().flatten().count() as u64, cache.stats().stored);
}
