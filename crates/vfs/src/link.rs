//! Latency and rate of the way to the service, measured by the fetches themselves.
//!
//! The latency is the time to the first byte of an answer: the shortest of late, to which longer ones add slowly. A
//! sample of the rate is taken over 2 MiB or more that came without a pause; it may be below what the link carries,
//! never above. So the highest of the recent samples counts.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Bytes of a sample. Fewer say more about the latency than about the rate.
pub(crate) const SAMPLE: u64 = 2 << 20;

/// Weight of the newest value in a latency that grows and in a rate that falls.
const NEWEST: f64 = 1.0 / 8.0;

/// Time after which a rate is measured again. Short enough for a laptop that changes its network; a sample costs 2 MiB.
const RATE_LIFETIME: Duration = Duration::from_mins(1);

/// Latency and rate of the link, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Link {
    /// Time to the first byte of an answer.
    pub(crate) latency: Duration,
    /// Bytes per second of all answers together. None: not measured, or too long ago.
    pub(crate) rate: Option<f64>,
    /// Bytes per second that the user allows. None: no limit.
    pub(crate) limit: Option<u64>,
}

/// Measures the link.
#[derive(Debug, Default)]
pub(crate) struct LinkMeter(Mutex<Measurement>);

#[derive(Debug, Default)]
struct Measurement {
    latency: Option<Duration>,
    /// Bytes per second, and when the newest sample was taken.
    rate: Option<(f64, Instant)>,
    in_flight: usize,
    /// Beginning of the sample under way.
    since: Option<Instant>,
    /// No answer was under way when the sample began: its first bytes took a latency.
    from_rest: bool,
    bytes: u64,
}

/// A request under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct MeteredRequest<'a> {
    meter: &'a LinkMeter,
    sent: Instant,
}

impl LinkMeter {
    /// A request is sent.
    pub(crate) fn send(&self) -> MeteredRequest<'_> {
        let now = Instant::now();
        let mut state = self.lock();
        if state.in_flight == 0 {
            (state.since, state.from_rest, state.bytes) = (Some(now), true, 0);
        }
        state.in_flight += 1;
        MeteredRequest { meter: self, sent: now }
    }

    /// The link as far as it is known; the user allows so many bytes per second on it.
    pub(crate) fn link(&self, limit: Option<u64>) -> Link {
        let state = self.lock();
        let rate = state.rate.filter(|(_, taken)| taken.elapsed() < RATE_LIFETIME);
        Link { latency: state.latency.unwrap_or_default(), rate: rate.map(|(rate, _)| rate), limit }
    }

    fn lock(&self) -> MutexGuard<'_, Measurement> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MeteredRequest<'_> {
    /// The answer has begun.
    pub(crate) fn begun(&self) {
        let took = self.sent.elapsed();
        let mut state = self.meter.lock();
        state.latency = Some(match state.latency {
            Some(latency) if took > latency => latency + took.saturating_sub(latency).mul_f64(NEWEST),
            _ => took,
        });
    }

    /// Bytes of the answer have come.
    pub(crate) fn received(&self, bytes: u64) {
        let mut state = self.meter.lock();
        state.bytes += bytes;
        let Some(since) = state.since.filter(|_| state.bytes >= SAMPLE) else { return };
        let now = Instant::now();
        let latency = if state.from_rest { state.latency.unwrap_or_default() } else { Duration::ZERO };
        // No quicker than memory is copied.
        let took = now.duration_since(since).saturating_sub(latency).max(Duration::from_micros(100));
        let sample = state.bytes as f64 / took.as_secs_f64();
        let rate = state.rate.map_or(sample, |(rate, _)| sample.max(rate + (sample - rate) * NEWEST));
        state.rate = Some((rate, now));
        (state.since, state.from_rest, state.bytes) = (Some(now), false, 0);
    }
}

impl Drop for MeteredRequest<'_> {
    fn drop(&mut self) {
        self.meter.lock().in_flight -= 1;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn single_blocks_say_nothing_about_the_rate() {
        let meter = LinkMeter::default();
        for _ in 0..100 {
            let request = meter.send();
            advance(Duration::from_millis(20)).await;
            request.begun();
            request.received(128 << 10);
        }
        assert_eq!(meter.link(None), Link { latency: Duration::from_millis(20), rate: None, limit: None });
    }

    #[tokio::test(start_paused = true)]
    async fn answers_together_give_the_rate_without_the_latency() {
        let meter = LinkMeter::default();
        let requests = [meter.send(), meter.send()];
        advance(Duration::from_millis(30)).await;
        requests.iter().for_each(MeteredRequest::begun);
        advance(Duration::from_millis(10)).await;
        for request in &requests {
            request.received(MIB);
        }

        let rate = meter.link(None).rate.unwrap();
        assert!((rate / (200.0 * MIB as f64) - 1.0).abs() < 0.01, "{rate}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_sample_lowers_the_rate_slowly_and_an_old_rate_is_none() {
        let meter = LinkMeter::default();
        let request = meter.send();
        request.begun();
        advance(Duration::from_millis(2)).await;
        request.received(2 * MIB);
        let fast = meter.link(None).rate.unwrap();
        advance(Duration::from_secs(1)).await;
        request.received(2 * MIB);
        let after = meter.link(None).rate.unwrap();
        assert!(after < fast && after > fast * 0.8, "{fast} {after}");

        for _ in 0..100 {
            advance(Duration::from_millis(20)).await;
            request.received(2 * MIB);
        }
        let slow = meter.link(None).rate.unwrap();
        assert!(slow < 101.0 * MIB as f64, "{slow}");
        advance(RATE_LIFETIME).await;
        assert_eq!(meter.link(None).rate, None);
    }
}
