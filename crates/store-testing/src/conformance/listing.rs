//! Checks of listings: complete, each entry once, in any order.

use std::collections::BTreeSet;

use super::{Bench, sorted};
use seqferry_store::{ListRequest, ObjectRef};

/// A small tree whose byte order differs from that of a directory walk: `a-` < `a/` < `a0`. Keys that some services do
/// not keep, such as one that ends in a slash, are in `ServiceQuirks::keys`.
const TREE: [&str; 10] = ["a-1", "a.1", "a/1", "a/2", "a/b/1", "a0", "b/1", "c", "e/f/g/h", "\u{e9}/1"];

async fn plant(bench: &Bench<'_>) -> Vec<String> {
    let keys: Vec<String> = TREE.iter().map(|name| bench.key(name)).collect();
    for key in &keys {
        bench.put(key).await;
    }
    keys
}

fn below(bench: &Bench<'_>) -> ListRequest {
    ListRequest { prefix: bench.prefix.clone(), ..ListRequest::default() }
}

pub(super) async fn pages_hold_every_key_once(bench: &Bench<'_>) {
    let keys = sorted(plant(bench).await);

    for max_keys in [None, Some(1), Some(2), Some(3), Some(7), Some(1000), Some(5000)] {
        let (objects, groups) = bench.list_all(ListRequest { max_keys, ..below(bench) }).await;
        let listed: Vec<String> = objects.into_iter().map(|object| object.key).collect();

        assert_eq!(groups, Vec::<String>::new());
        if bench.quirks.sorted {
            assert_eq!(listed, keys, "pages of {max_keys:?}");
        } else {
            assert_eq!(sorted(listed), keys, "pages of {max_keys:?}");
        }
    }
}

pub(super) async fn prefixes_select(bench: &Bench<'_>) {
    let keys = plant(bench).await;

    for prefix in ["a", "a/", "a/b", "b/1", "\u{e9}", "e/f/g", "nothing"] {
        let request = ListRequest { prefix: bench.key(prefix), max_keys: Some(2), ..ListRequest::default() };
        let listed = bench.list_all(request).await.0.into_iter().map(|object| object.key).collect();

        let wanted = keys.iter().filter(|key| key.starts_with(&bench.key(prefix))).cloned().collect();
        assert_eq!(sorted::<String>(listed), sorted::<String>(wanted), "{prefix}");
    }
}

pub(super) async fn delimiters_group(bench: &Bench<'_>) {
    let keys = plant(bench).await;

    for prefix in ["", "a", "a/", "a/b/", "e/", "nothing/"] {
        let prefix = bench.key(prefix);
        let (mut single, mut groups) = (BTreeSet::new(), BTreeSet::new());
        for key in keys.iter().filter(|key| key.starts_with(&prefix)) {
            match key[prefix.len()..].find('/') {
                Some(at) => groups.insert(key[..=prefix.len() + at].to_owned()),
                None => single.insert(key.clone()),
            };
        }
        for max_keys in [None, Some(1), Some(2), Some(3)] {
            let delimiter = Some("/".to_owned());
            let request = ListRequest { prefix: prefix.clone(), delimiter, max_keys, ..ListRequest::default() };
            let (objects, listed_groups) = bench.list_all(request).await;
            let listed: Vec<String> = objects.into_iter().map(|object| object.key).collect();

            // Lists are compared, not sets: a repeated entry is an error.
            assert_eq!(sorted(listed), single.iter().cloned().collect::<Vec<_>>(), "{prefix} in pages of {max_keys:?}");
            assert_eq!(
                sorted(listed_groups),
                groups.iter().cloned().collect::<Vec<_>>(),
                "{prefix} in pages of {max_keys:?}"
            );
        }
    }
}

pub(super) async fn listing_starts_after_a_key(bench: &Bench<'_>) {
    plant(bench).await;
    let all = bench.keys().await;

    for (i, key) in all.iter().enumerate() {
        for max_keys in [None, Some(2)] {
            let request = ListRequest { start_after: Some(key.clone()), max_keys, ..below(bench) };
            let listed: Vec<String> = bench.list_all(request).await.0.into_iter().map(|object| object.key).collect();

            assert_eq!(listed, all[i + 1..], "after {key}");
        }
    }
    if bench.quirks.sorted {
        // The start may lie between keys: this is how a listing is split into ranges.
        for place in ["", "a.", "a/1!", "b", "z"] {
            let place = bench.key(place);
            let request = ListRequest { start_after: Some(place.clone()), ..below(bench) };
            let listed: Vec<String> = bench.list_all(request).await.0.into_iter().map(|object| object.key).collect();

            assert_eq!(listed, all.iter().filter(|key| **key > place).cloned().collect::<Vec<_>>(), "after {place}");
        }
    }
}

pub(super) async fn listed_facts_are_those_of_head(bench: &Bench<'_>) {
    for size in [0, 1, 5000] {
        bench.put_bytes(&bench.key(&format!("size-{size}")), bench.bytes("body", size)).await;
    }

    let (objects, _) = bench.list_all(below(bench)).await;

    assert_eq!(objects.len(), 3);
    for object in objects {
        let meta = bench.store.head(ObjectRef::new(bench.bucket, &object.key), None).await.expect("listed, so there");
        assert_eq!((object.size, &object.etag), (meta.size, &meta.etag), "{}", object.key);
        // HEAD returns whole seconds.
        assert!((object.last_modified - meta.last_modified).abs() <= 1.0, "{object:?} {meta:?}");
    }
}

pub(super) async fn nothing_is_listed_of_nothing(bench: &Bench<'_>) {
    let page = bench
        .store
        .list(&ListRequest { bucket: bench.bucket.to_owned(), prefix: bench.key("nothing/"), ..ListRequest::default() })
        .await
        .expect("an empty page");

    assert!(page.objects.is_empty() && page.common_prefixes.is_empty() && page.continuation.is_none(), "{page:?}");
}

pub(super) async fn odd_keys_are_listed_as_they_are(bench: &Bench<'_>) {
    let keys: Vec<String> = bench.quirks.keys.iter().map(|key| bench.key(key)).collect();
    for key in &keys {
        bench.put(key).await;
    }

    for max_keys in [None, Some(1), Some(4)] {
        let listed = bench.list_all(ListRequest { max_keys, ..below(bench) }).await.0;
        assert_eq!(sorted(listed.into_iter().map(|object| object.key).collect()), sorted(keys.clone()));
    }
    for key in &keys {
        // A key as a prefix selects at least itself; as a start, it precedes the rest.
        let request = ListRequest { prefix: key.clone(), ..ListRequest::default() };
        let listed = bench.list_all(request).await.0;
        assert!(listed.iter().any(|object| object.key == *key), "{key:?} as a prefix: {listed:?}");
    }
    let all = bench.keys().await;
    for (i, key) in all.iter().enumerate() {
        if !bench.quirks.starts_after_parents && all.iter().any(|other| other.starts_with(&format!("{key}/"))) {
            continue;
        }
        let request = ListRequest { start_after: Some(key.clone()), ..below(bench) };
        let listed: Vec<String> = bench.list_all(request).await.0.into_iter().map(|object| object.key).collect();
        assert_eq!(listed, all[i + 1..], "after {key:?}");
    }
}
