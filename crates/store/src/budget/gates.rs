//! The gates of a budget and who waits at them. All decisions are taken under one lock, by [`Gates::next`].

use std::time::Duration;

use super::control::{Control, Start};
use super::latency::Kind;
use super::turns::Turns;
use super::{Access, Ended, GateStats, JobId, Wanted};

/// Gates kept besides those in use: what they have learned is worth little more than a few seconds.
const IDLE_GATES: usize = 64;

/// One who waits for the right to make a request.
#[derive(Debug)]
pub(super) struct Waiter<W> {
    pub(super) wake: W,
    pub(super) kind: Kind,
}

/// Load of one kind on a part of a bucket, which the service limits by itself.
#[derive(Debug)]
struct Gate<W> {
    id: u64,
    bucket: String,
    prefix: String,
    access: Access,
    control: Control,
    waiting: Turns<JobId, Waiter<W>>,
    /// Waiters that gave up and are still in the queue, at most.
    abandoned: usize,
    in_flight: usize,
    used: Duration,
}

/// All gates under one cap. `W` is how a waiter is told.
#[derive(Debug)]
pub(super) struct Gates<W> {
    all: Vec<Gate<W>>,
    /// Whether a waiter has gone away.
    gone: fn(&W) -> bool,
    /// Whose turn it is, when the cap is what they wait for.
    turn: usize,
    ids: u64,
    pub(super) in_flight: usize,
    pub(super) most: usize,
    pub(super) requests: u64,
    pub(super) throttled: u64,
    pub(super) hedges: u64,
}

/// What can be done now.
pub(super) enum Next<W> {
    /// This one at this gate may start; it has been counted as started.
    Start(u64, Waiter<W>),
    /// Nothing before this time.
    At(Duration),
    /// Nothing before a request has ended.
    Wait,
}

impl<W> Gates<W> {
    pub(super) fn new(most: usize, gone: fn(&W) -> bool) -> Self {
        Self {
            all: Vec::new(),
            gone,
            turn: 0,
            ids: 0,
            in_flight: 0,
            most: most.max(1),
            requests: 0,
            throttled: 0,
            hedges: 0,
        }
    }

    fn find(&mut self, id: u64) -> Option<&mut Gate<W>> {
        self.all.iter_mut().find(|gate| gate.id == id)
    }

    /// Queue up. Returns the gate's id.
    pub(super) fn wait(&mut self, now: Duration, wanted: Wanted<'_>, wake: W) -> u64 {
        let waiter = Waiter { wake, kind: Kind::new(wanted.operation, wanted.bytes) };
        let same = |gate: &Gate<W>| {
            gate.access == wanted.access && gate.bucket == wanted.bucket && gate.prefix == wanted.prefix
        };
        let index = self.all.iter().position(same).unwrap_or_else(|| {
            self.forget_one();
            self.ids += 1;
            self.all.push(Gate {
                id: self.ids,
                bucket: wanted.bucket.to_owned(),
                prefix: wanted.prefix.to_owned(),
                access: wanted.access,
                control: Control::new(now, self.most),
                waiting: Turns::default(),
                abandoned: 0,
                in_flight: 0,
                used: now,
            });
            self.all.len() - 1
        });
        let gate = &mut self.all[index];
        gate.used = now;
        gate.waiting.push(wanted.job, wanted.rank, waiter);
        gate.id
    }

    /// With many gates, forget the one that was not used for longest.
    fn forget_one(&mut self) {
        if self.all.len() < IDLE_GATES {
            return;
        }
        let idle = self.all.iter().enumerate().filter(|(_, gate)| gate.in_flight == 0 && gate.waiting.is_empty());
        if let Some((index, _)) = idle.min_by_key(|(_, gate)| gate.used) {
            self.all.swap_remove(index);
        }
    }

    /// A waiter at this gate has given up.
    pub(super) fn abandoned(&mut self, id: u64) {
        let gone = self.gone;
        let Some(gate) = self.find(id) else { return };
        gate.abandoned += 1;
        if gate.abandoned * 2 > gate.waiting.len() {
            gate.waiting.retain(|waiter| !gone(&waiter.wake));
            gate.abandoned = 0;
        }
    }

    /// The next thing to do.
    pub(super) fn next(&mut self, now: Duration) -> Next<W> {
        let mut due: Option<Duration> = None;
        let count = self.all.len();
        for offset in 0..count {
            let index = (self.turn + offset) % count;
            let gate = &mut self.all[index];
            if gate.waiting.is_empty() {
                gate.control.rest(now);
                continue;
            }
            if self.in_flight >= self.most {
                // The cap is what they wait for, so the gates learn nothing.
                gate.control.rest(now);
                continue;
            }
            match gate.control.may_start(now, gate.in_flight) {
                Start::Full => {}
                Start::At(time) => due = Some(due.map_or(time, |first| first.min(time))),
                Start::Now => {
                    let gone = self.gone;
                    if let Some(waiter) = std::iter::from_fn(|| gate.waiting.pop()).find(|waiter| !gone(&waiter.wake)) {
                        let id = gate.id;
                        self.turn = index + 1;
                        self.start(now, index);
                        return Next::Start(id, waiter);
                    }
                }
            }
        }
        due.map_or(Next::Wait, Next::At)
    }

    fn start(&mut self, now: Duration, index: usize) {
        let gate = &mut self.all[index];
        gate.control.started(now);
        (gate.in_flight, gate.used) = (gate.in_flight + 1, now);
        self.in_flight += 1;
        self.requests += 1;
    }

    /// A request that was started has ended.
    pub(super) fn ended(&mut self, now: Duration, id: u64, started: Duration, kind: Kind, how: Ended) {
        self.in_flight -= 1;
        self.throttled += u64::from(how == Ended::Throttled);
        if let Some(gate) = self.find(id) {
            gate.in_flight -= 1;
            gate.used = now;
            gate.control.ended(now, started, kind, how);
        }
    }

    /// How long after its start a request of this kind is worth being sent a second time.
    pub(super) fn slow_after(&mut self, id: u64, kind: Kind) -> Option<Duration> {
        self.find(id)?.control.slow_after(kind)
    }

    /// Start a second request beside a slow one at this gate, if that is allowed now.
    pub(super) fn hedge(&mut self, now: Duration, id: u64) -> bool {
        let Some(index) = self.all.iter().position(|gate| gate.id == id) else { return false };
        let may = self.in_flight < self.most && self.all[index].control.hedge(now);
        if may {
            self.hedges += 1;
            self.start(now, index);
        }
        may
    }

    pub(super) fn limit(&mut self, most: usize) {
        self.most = most.max(1);
        for gate in &mut self.all {
            gate.control.limit(self.most);
        }
    }

    pub(super) fn stats(&self) -> Vec<GateStats> {
        let stats = |gate: &Gate<W>| {
            let (requests, throttled) = gate.control.counts();
            GateStats {
                bucket: gate.bucket.clone(),
                prefix: gate.prefix.clone(),
                access: gate.access,
                in_flight: gate.in_flight,
                waiting: gate.waiting.len(),
                window: gate.control.window(),
                rate: gate.control.rate(),
                requests,
                throttled,
            }
        };
        self.all.iter().map(stats).collect()
    }
}
