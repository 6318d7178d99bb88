//! Duplicate request cache: replies to calls that change something, kept in case the client sends the call again.
//!
//! A client that got no reply sends its call again, often over another connection. Run twice, a removal would report
//! that there is no such file, and a delayed write would undo a later one. A new call that only resembles an earlier
//! one must run: its client would believe a change that was not made. So a call is identified by a keyed digest of all
//! its bytes, and for a limited time, since clients reuse their numbers.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::call::Call;
use crate::reply::Reply;

/// Replies that are kept for each client and kind of call. A client has at most some hundred calls without a reply.
const MAX_REPLIES: usize = 1024;
/// Clients whose replies are kept.
const MAX_CLIENTS: usize = 256;
/// Replies that are kept of all clients, some 300 bytes each: 128 of each kind where all of them are busy.
const MAX_KEPT: usize = 1 << 16;
/// Calls between two searches for old replies, of clients that send nothing any more.
const SEARCH_INTERVAL: u64 = 1024;
/// Time for which a reply is kept. Linux sends a call again after a minute, and immediately over a new connection.
const MAX_AGE: Duration = Duration::from_mins(2);

/// Identity of a call: its number alone would mix calls of several programs behind one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct CallKey {
    xid: u32,
    /// Digest of the whole call. It has a key, so that no call can be made that has the digest of another one.
    digest: u64,
}

/// Kinds of calls whose replies are kept apart: a file that is written must not push out the reply to a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CachedCallKind {
    Writes,
    Changes,
}

/// A call that was sent before.
#[derive(Debug)]
enum CachedCall {
    /// It is running: the reply comes here. No reply comes if the call ended without one.
    Running(watch::Receiver<Option<Reply>>),
    Done(Reply),
}

/// Replies of one kind to one client.
#[derive(Debug, Default)]
struct CachedReplies {
    calls: HashMap<CallKey, CachedCall>,
    /// Calls that are done and their ends, the oldest first.
    done: VecDeque<(CallKey, Instant)>,
}

#[derive(Debug, Default)]
struct ClientReplies {
    writes: CachedReplies,
    changes: CachedReplies,
    used: u64,
}

#[derive(Debug, Default)]
struct CacheState {
    clients: HashMap<IpAddr, ClientReplies>,
    clock: u64,
}

/// Replies by client.
#[derive(Debug, Default)]
pub(crate) struct ReplyCache {
    state: Mutex<CacheState>,
    digests: RandomState,
}

/// Answer to a call that begins.
#[derive(Debug)]
pub(crate) enum CacheLookup {
    /// It is new: run it and state the reply.
    New(RunningCall),
    /// It came before, and this is its reply.
    Answered(Reply),
}

/// A call that runs now. Dropped without a reply, it may run again.
#[derive(Debug)]
pub(crate) struct RunningCall {
    cache: Arc<ReplyCache>,
    client: IpAddr,
    key: CallKey,
    kind: CachedCallKind,
    reply: Option<watch::Sender<Option<Reply>>>,
}

impl ReplyCache {
    /// Begin a call, or wait for the reply of the same call.
    pub(crate) async fn begin(self: &Arc<Self>, client: IpAddr, call: &Call, kind: CachedCallKind) -> CacheLookup {
        let key = self.key(call);
        loop {
            let mut running = {
                let mut state = self.lock();
                let replies = state.replies(client, kind);
                match replies.calls.get(&key) {
                    Some(CachedCall::Done(reply)) => return CacheLookup::Answered(reply.clone()),
                    Some(CachedCall::Running(running)) => running.clone(),
                    None => {
                        let (sender, receiver) = watch::channel(None);
                        replies.calls.insert(key, CachedCall::Running(receiver));
                        let cache = Arc::clone(self);
                        return CacheLookup::New(RunningCall { cache, client, key, kind, reply: Some(sender) });
                    }
                }
            };
            if let Ok(reply) = running.wait_for(Option::is_some).await
                && let Some(reply) = reply.clone()
            {
                return CacheLookup::Answered(reply);
            }
            // It ended without a reply that counts: this one runs.
        }
    }

    fn key(&self, call: &Call) -> CallKey {
        let mut hasher = self.digests.build_hasher();
        hasher.write(&call.record);
        CallKey { xid: call.xid, digest: hasher.finish() }
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    fn replies(&mut self, client: IpAddr, kind: CachedCallKind) -> &mut CachedReplies {
        self.clock += 1;
        if !self.clients.contains_key(&client) && self.clients.len() >= MAX_CLIENTS {
            let is_idle = |client: &ClientReplies| {
                [&client.writes, &client.changes].iter().all(|replies| replies.done.len() == replies.calls.len())
            };
            let idle = self.clients.iter().filter(|(_, client)| is_idle(client));
            if let Some(address) = idle.min_by_key(|(_, client)| client.used).map(|(address, _)| *address) {
                self.clients.remove(&address);
            }
        }
        let found = self.clients.entry(client).or_default();
        found.used = self.clock;
        let replies = match kind {
            CachedCallKind::Writes => &mut found.writes,
            CachedCallKind::Changes => &mut found.changes,
        };
        replies.forget_old();
        replies
    }

    fn all(&mut self) -> impl Iterator<Item = &mut CachedReplies> {
        self.clients.values_mut().flat_map(|client| [&mut client.writes, &mut client.changes])
    }

    /// Keep no more than is allowed: the client with most replies loses its oldest one.
    fn limit(&mut self) {
        if self.clock.is_multiple_of(SEARCH_INTERVAL) {
            self.all().for_each(CachedReplies::forget_old);
        }
        while self.all().map(|replies| replies.done.len()).sum::<usize>() > MAX_KEPT
            && let Some(most) = self.all().max_by_key(|replies| replies.done.len())
        {
            most.forget_oldest();
        }
    }
}

impl CachedReplies {
    /// Forget replies that are too old.
    fn forget_old(&mut self) {
        while self.done.front().is_some_and(|(_, end)| end.elapsed() >= MAX_AGE) {
            self.forget_oldest();
        }
        if self.calls.is_empty() && self.calls.capacity() > 0 {
            // With the memory that it took when it was full.
            *self = Self::default();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((oldest, _)) = self.done.pop_front() {
            self.calls.remove(&oldest);
        }
    }
}

impl RunningCall {
    /// Keep the reply, and give it to those that wait for it.
    pub(crate) fn answered(mut self, reply: &Reply) {
        {
            let mut state = self.cache.lock();
            let replies = state.replies(self.client, self.kind);
            replies.calls.insert(self.key, CachedCall::Done(reply.clone()));
            replies.done.push_back((self.key, Instant::now()));
            if replies.done.len() > MAX_REPLIES {
                replies.forget_oldest();
            }
            state.limit();
        }
        if let Some(sender) = self.reply.take() {
            sender.send_replace(Some(reply.clone()));
        }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        if self.reply.is_some() {
            self.cache.lock().replies(self.client, self.kind).calls.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn call(xid: u32) -> Call {
        call_with(xid, 12, &[])
    }

    fn call_with(xid: u32, procedure: u32, arguments: &[u8]) -> Call {
        let mut record = xid.to_be_bytes().to_vec();
        for number in [0_u32, 2, 100_003, 3, procedure, 0, 0, 0, 0] {
            record.extend(number.to_be_bytes());
        }
        record.extend(arguments);
        Call::parse(record.into()).unwrap()
    }

    /// True when the call runs, and false when it gets the reply of one before.
    async fn runs(cache: &Arc<ReplyCache>, call: &Call) -> bool {
        match cache.begin("10.0.0.1".parse().unwrap(), call, CachedCallKind::Writes).await {
            CacheLookup::Answered(_) => false,
            CacheLookup::New(running) => {
                running.answered(&reply("done"));
                true
            }
        }
    }

    fn reply(text: &'static str) -> Reply {
        Reply { parts: vec![Bytes::from_static(text.as_bytes())] }
    }

    async fn run(cache: &Arc<ReplyCache>, client: &str, xid: u32, text: &'static str) -> Option<Reply> {
        match cache.begin(client.parse().unwrap(), &call(xid), CachedCallKind::Changes).await {
            CacheLookup::Answered(reply) => Some(reply),
            CacheLookup::New(running) => {
                running.answered(&reply(text));
                None
            }
        }
    }

    #[tokio::test]
    async fn the_oldest_replies_go_first_and_clients_are_apart() {
        let cache = Arc::new(ReplyCache::default());
        for xid in 0..=u32::try_from(MAX_REPLIES).unwrap() {
            assert!(run(&cache, "10.0.0.1", xid, "first").await.is_none());
        }
        assert_eq!(run(&cache, "10.0.0.1", 1, "second").await.unwrap().parts[0], "first");
        assert!(run(&cache, "10.0.0.1", 0, "second").await.is_none(), "the oldest was dropped");
        assert!(run(&cache, "10.0.0.2", 1, "second").await.is_none(), "another client");
        for host in 0..MAX_CLIENTS {
            let address = format!("10.1.{}.{}", host / 250, host % 250);
            run(&cache, &address, 1, "other").await;
        }
        assert_eq!(cache.lock().clients.len(), MAX_CLIENTS);
    }

    #[tokio::test(start_paused = true)]
    async fn many_busy_clients_have_a_share_each_and_those_that_left_have_none() {
        let cache = Arc::new(ReplyCache::default());
        let clients: Vec<String> = (0..MAX_CLIENTS).map(|host| format!("10.1.{}.{}", host / 250, host % 250)).collect();
        let most = u32::try_from(MAX_REPLIES).unwrap();
        for client in &clients[..100] {
            for xid in 0..most {
                assert!(run(&cache, client, xid, "first").await.is_none());
            }
        }
        let kept = |cache: &ReplyCache| cache.lock().all().map(|replies| replies.done.len()).sum::<usize>();
        assert_eq!(kept(&cache), MAX_KEPT);
        let share = u32::try_from(MAX_KEPT / MAX_CLIENTS).unwrap();
        for client in &clients {
            for xid in most - share..most {
                run(&cache, client, xid, "first").await;
            }
        }
        for client in &clients {
            for xid in most - share..most {
                assert!(run(&cache, client, xid, "second").await.is_some(), "{client} {xid}");
            }
        }
        tokio::time::advance(MAX_AGE).await;
        for xid in 0..u32::try_from(SEARCH_INTERVAL).unwrap() {
            run(&cache, "10.2.0.1", xid, "later").await;
        }
        assert!(kept(&cache) <= MAX_REPLIES, "{}", kept(&cache));
    }

    #[tokio::test]
    async fn a_call_that_ends_without_a_reply_runs_again() {
        let cache = Arc::new(ReplyCache::default());
        let address = "10.0.0.1".parse().unwrap();
        let CacheLookup::New(running) = cache.begin(address, &call(5), CachedCallKind::Changes).await else {
            panic!("it is new")
        };
        let (other, again) = (Arc::clone(&cache), call(5));
        let waiting = tokio::spawn(async move { other.begin(address, &again, CachedCallKind::Changes).await });
        tokio::task::yield_now().await;
        drop(running);
        assert!(matches!(waiting.await.unwrap(), CacheLookup::New(_)));
    }

    #[tokio::test]
    async fn a_call_that_differs_anywhere_is_another_call() {
        let cache = Arc::new(ReplyCache::default());
        let arguments = vec![7; 1 << 20];
        assert!(runs(&cache, &call_with(1, 7, &arguments)).await);
        assert!(!runs(&cache, &call_with(1, 7, &arguments)).await, "the same call");
        for at in [0, 255, 256, 257, 4096, arguments.len() / 2, arguments.len() - 1] {
            let mut changed = arguments.clone();
            changed[at] ^= 1;
            assert!(runs(&cache, &call_with(1, 7, &changed)).await, "byte {at}");
        }
        assert!(runs(&cache, &call_with(1, 7, &arguments[1..])).await, "shorter");
        assert!(runs(&cache, &call_with(1, 2, &arguments)).await, "another procedure");
        assert!(runs(&cache, &call_with(2, 7, &arguments)).await, "another number");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_is_kept_for_two_minutes_and_a_call_that_runs_for_as_long_as_it_runs() {
        let cache = Arc::new(ReplyCache::default());
        assert!(runs(&cache, &call(1)).await);
        tokio::time::advance(MAX_AGE.saturating_sub(Duration::from_secs(1))).await;
        assert!(!runs(&cache, &call(1)).await, "it comes again in time");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(runs(&cache, &call(1)).await, "a program that begins its numbers anew");
        assert_eq!(cache.lock().clients.values().map(|client| client.writes.calls.len()).sum::<usize>(), 1);

        let address = "10.0.0.1".parse().unwrap();
        let CacheLookup::New(running) = cache.begin(address, &call(5), CachedCallKind::Writes).await else {
            panic!("it is new")
        };
        tokio::time::advance(10 * MAX_AGE).await;
        let (other, again) = (Arc::clone(&cache), call(5));
        let waiting = tokio::spawn(async move { other.begin(address, &again, CachedCallKind::Writes).await });
        tokio::task::yield_now().await;
        running.answered(&reply("late"));
        let CacheLookup::Answered(late) = waiting.await.unwrap() else { panic!("the slow call ran twice") };
        assert_eq!(late.parts[0], "late");
    }
}
