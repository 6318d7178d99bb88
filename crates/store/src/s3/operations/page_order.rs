//! Order of the pages of a listing.
//!
//! A page that does not follow the one before came from a cache, or from a service that ignores continuation tokens.
//! Without this check the listing would end early and lack the entries of the right page. Services list in the order of
//! bytes, or of folders (SeaweedFS). Some have another order; those repeat no entry of the page before either.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of sorted neighbours from which on an order counts as the service's. Other orders reach it by chance once
/// in 10^6.
const MIN_NEIGHBOURS: usize = 8;
/// Largest number of listings whose last pages are remembered: each up to 1,000 entries of 8 bytes.
const MAX_LISTINGS: usize = 256;

/// Order in which a service may list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Bytes,
    /// Each segment between slashes by itself: `a/b` before `a-b`.
    Folders,
}

impl Order {
    fn compare(self, one: &str, other: &str) -> Ordering {
        match self {
            Self::Bytes => one.cmp(other),
            Self::Folders => {
                let bytes = |key: &str| key.bytes().map(|byte| if byte == b'/' { 0 } else { byte }).collect::<Vec<_>>();
                bytes(one).cmp(&bytes(other))
            }
        }
    }

    fn is_sorted(self, keys: &[&str]) -> bool {
        keys.is_sorted_by(|one, other| self.compare(one, other) != Ordering::Greater)
    }
}

/// Entries of a page, in lists that each have the order of the service: objects and common prefixes, or versions and
/// delete markers.
#[derive(Debug, Default)]
pub(super) struct PageEntries<'a> {
    pub(super) lists: [Vec<&'a str>; 2],
    /// Ids of versions, which tell entries of one key apart, by the list and place of the entry. Empty: the key alone.
    pub(super) ids: Vec<&'a str>,
    /// Entries of the second list may come again: a common prefix does at some services.
    pub(super) repeats_second: bool,
}

/// State of a listing after a page.
#[derive(Debug, Clone, Default)]
struct ListingState {
    /// Orders that all pages have had.
    orders: Vec<Order>,
    /// Last keys of the lists.
    last: [Option<String>; 2],
    /// Hashes of the entries of the last page that has any.
    seen: HashSet<u64>,
    /// Neighbours that were in one of the orders.
    neighbours: usize,
}

/// States of the listings in progress, by the request for their next page.
#[derive(Debug, Default)]
pub(in crate::s3) struct PageOrders {
    state: Mutex<State>,
    hashes: RandomState,
}

#[derive(Debug, Default)]
struct State {
    listings: HashMap<u64, Arc<ListingState>>,
    /// The oldest first.
    ages: VecDeque<u64>,
}

impl PageOrders {
    /// Compares a page with the one before. `listing` identifies the listing, such as by bucket and prefix; `marker` is
    /// the marker of this page, and `next` that of the next one, if they have one.
    ///
    /// # Errors
    /// The contradiction, for a message.
    pub(super) fn check<A: Hash + Copy, M: Hash + Copy>(
        &self,
        listing: A,
        marker: Option<M>,
        next: Option<M>,
        entries: &PageEntries<'_>,
    ) -> Result<(), String> {
        if marker.is_none() && next.is_none() {
            return Ok(());
        }
        let hash = |marker: &M| self.hashes.hash_one((&listing, marker));
        let before = marker.as_ref().and_then(|marker| self.lock().listings.get(&hash(marker)).cloned());
        let passed = self.next_state(before.as_deref(), entries)?;
        if let Some(next) = &next {
            let mut state = self.lock();
            let key = hash(next);
            if state.listings.insert(key, Arc::new(passed)).is_none() {
                state.ages.push_back(key);
            }
            if state.ages.len() > MAX_LISTINGS
                && let Some(oldest) = state.ages.pop_front()
            {
                state.listings.remove(&oldest);
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// State of the listing after this page. A page without a known predecessor is accepted.
    fn next_state(&self, before: Option<&ListingState>, entries: &PageEntries<'_>) -> Result<ListingState, String> {
        let count: usize = entries.lists.iter().map(Vec::len).sum();
        let Some(before) = before else {
            let all = ListingState { orders: vec![Order::Bytes, Order::Folders], ..ListingState::default() };
            return Ok(self.after(&all, entries, all.orders.clone()));
        };
        if count == 0 {
            return Ok(before.clone());
        }
        let hashes = self.hashes_of(entries);
        let lasts = before.last.each_ref().map(Option::as_deref);
        for ((list, key), hash) in entries.all().zip(&hashes) {
            // Some services begin a page with the last entry of the one before.
            let may_repeat = list == 1 && entries.repeats_second || lasts[list] == Some(key);
            if !may_repeat && before.seen.contains(hash) {
                return Err(format!("'{key}' was in the page before"));
            }
        }
        let held: Vec<Order> = before.orders.iter().copied().filter(|order| entries.is_sorted(*order)).collect();
        let follows = |order: &Order| {
            let last = lasts.into_iter().flatten().max_by(|one, other| order.compare(one, other));
            let first = entries.first(*order);
            last.zip(first).is_none_or(|(last, first)| order.compare(last, first) != Ordering::Greater)
        };
        let following: Vec<Order> = held.iter().copied().filter(follows).collect();
        if let (Some(order), true) =
            (held.first(), following.is_empty() && before.neighbours + entries.neighbours() >= MIN_NEIGHBOURS)
        {
            let (last, first) = (lasts.into_iter().flatten().max(), entries.first(*order));
            return Err(format!(
                "it begins with '{}', and the page before ends with '{}'",
                first.unwrap_or_default(),
                last.unwrap_or_default()
            ));
        }
        Ok(self.after(before, entries, following))
    }

    fn after(&self, before: &ListingState, entries: &PageEntries<'_>, orders: Vec<Order>) -> ListingState {
        let orders: Vec<Order> = orders.into_iter().filter(|order| entries.is_sorted(*order)).collect();
        let last = |list: usize| entries.lists[list].last().map(|key| (*key).to_owned());
        ListingState {
            neighbours: if orders.is_empty() { 0 } else { before.neighbours + entries.neighbours() },
            orders,
            last: [0, 1].map(|list| last(list).or_else(|| before.last[list].clone())),
            seen: self.hashes_of(entries).into_iter().collect(),
        }
    }

    fn hashes_of(&self, entries: &PageEntries<'_>) -> Vec<u64> {
        let ids = entries.ids.iter().copied().chain(std::iter::repeat(""));
        entries.all().zip(ids).map(|(entry, id)| self.hashes.hash_one((entry, id))).collect()
    }
}

impl<'a> PageEntries<'a> {
    /// The keys with the numbers of their lists.
    fn all(&self) -> impl Iterator<Item = (usize, &'a str)> {
        self.lists.iter().enumerate().flat_map(|(list, keys)| keys.iter().map(move |key| (list, *key)))
    }

    fn neighbours(&self) -> usize {
        self.lists.iter().map(|list| list.len().saturating_sub(1)).sum()
    }

    fn is_sorted(&self, order: Order) -> bool {
        self.lists.iter().all(|list| order.is_sorted(list))
    }

    /// The first key in an order that both lists have.
    fn first(&self, order: Order) -> Option<&'a str> {
        self.lists.iter().filter_map(|list| list.first().copied()).min_by(|one, other| order.compare(one, other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first page whose order is wrong, and why. Each page has the next one's number as its token.
    fn wrong(pages: &[&[&str]]) -> Option<(usize, String)> {
        let orders = PageOrders::default();
        (0..pages.len()).find_map(|number| {
            let entries = PageEntries { lists: [pages[number].to_vec(), Vec::new()], ..PageEntries::default() };
            let marker = (number > 0).then_some(number);
            let next = (number + 1 < pages.len()).then_some(number + 1);
            orders.check("listing", marker, next, &entries).err().map(|why| (number, why))
        })
    }

    #[test]
    fn pages_that_follow_each_other_are_taken_in_each_order() {
        let many = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        let folders = ["a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "a/7", "a/8", "a/9"];
        for pages in [
            &[&many[..], &["k", "l"], &[], &["m"]][..],
            // A page that begins with the last key of the one before.
            &[&many, &["j", "k"]],
            // In the order of folders the boundary goes down by bytes.
            &[&folders, &["a-1", "a.1"]],
            // In no order, and with another one by chance.
            &[&["z", "a", "q"], &["b", "c"], &["y", "d"]],
            &[&["a", "b", "c"], &["B", "D"]],
            &[&["m", "z"], &["a", "b"]],
        ] {
            assert_eq!(wrong(pages), None, "{pages:?}");
        }
    }

    #[test]
    fn a_page_that_does_not_follow_is_an_error() {
        let many = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        for (pages, page, words) in [
            // The token of the page was ignored: the whole page again, or a part of it.
            (&[&many[..], &many][..], 1, "'a' was in the page before"),
            (&[&many, &many[5..]], 1, "'f' was in the page before"),
            (&[&["b", "a"], &["c", "b"]], 1, "'b' was in the page before"),
            // Pages that came before the one before, or from elsewhere.
            (&[&many, &["k", "l"], &many], 2, "it begins with 'a', and the page before ends with 'l'"),
            (&[&many, &["aa", "ab"]], 1, "it begins with 'aa', and the page before ends with 'j'"),
            (&[&many, &[], &["c1"]], 2, "it begins with 'c1'"),
        ] {
            let (number, why) = wrong(pages).unwrap_or_else(|| panic!("{pages:?}"));
            assert_eq!(number, page, "{pages:?}: {why}");
            assert!(why.contains(words), "{pages:?}: {why}");
        }
    }

    #[test]
    fn common_prefixes_may_come_again_and_versions_of_a_key_go_on() {
        let orders = PageOrders::default();
        let page = |objects: &[&'static str], common_prefixes: &[&'static str]| PageEntries {
            lists: [objects.to_vec(), common_prefixes.to_vec()],
            repeats_second: true,
            ..PageEntries::default()
        };
        orders.check("groups", None, Some(1), &page(&["a", "c"], &["b/", "d/"])).unwrap();
        orders.check("groups", Some(1), None, &page(&["e"], &["d/"])).unwrap();
        // A token that is sent again gets the same answer: requests are repeated.
        orders.check("groups", Some(1), None, &page(&["e"], &["d/"])).unwrap();
        let versions = |ids: &[&'static str]| PageEntries {
            lists: [vec!["k"; ids.len()], Vec::new()],
            ids: ids.to_vec(),
            ..PageEntries::default()
        };
        orders.check("versions", None, Some("2"), &versions(&["1", "2"])).unwrap();
        orders.check("versions", Some("2"), None, &versions(&["3", "4"])).unwrap();
        let listings = orders.lock().listings.len();
        for token in 0..2 * MAX_LISTINGS {
            orders.check("many", None, Some(token), &page(&["a"], &[])).unwrap();
        }
        assert_eq!((listings, orders.lock().listings.len()), (2, MAX_LISTINGS));
    }
}
