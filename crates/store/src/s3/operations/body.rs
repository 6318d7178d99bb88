//! The body of a GET with timeouts: a body that stalls, is too slow or ends early is an error.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::{MIN_RATE, STALL_TIMEOUT};
use crate::body::ByteSource;
use crate::error::Result;
use crate::error::StoreError;
use crate::error::classify::code;
use crate::s3::accept_encoding::transformation_error;
use crate::s3::errors::error_chain;
use crate::s3::http1::PooledBody;
use crate::throttle::ByteThrottle;
use crate::types::PinnedObject;

/// A body that is being received, with its timeouts.
pub(super) struct WatchedBody {
    pub(super) bucket: String,
    pub(super) key: String,
    pub(super) body: PooledBody,
    pub(super) throttle: ByteThrottle,
    /// Announced bytes that have not arrived yet.
    pub(super) left: u64,
    /// The object whose whole body this is, where the body ends with its last chunk: a body of another length was
    /// transformed in transit.
    pub(super) chunked_source: Option<PinnedObject>,
    /// Bytes that have arrived.
    pub(super) arrived: u64,
    /// Time spent waiting for bytes, and bytes received, since the rate was last checked.
    pub(super) waited: Duration,
    pub(super) came: u64,
}

impl WatchedBody {
    fn truncated(&self, how: &str) -> StoreError {
        StoreError::new("GetObject", &self.bucket, Some(&self.key), code::TRUNCATED, Some(200)).with_message(how)
    }
}

#[async_trait]
impl ByteSource for WatchedBody {
    async fn read(&mut self, into: &mut Vec<u8>, at_most: usize) -> Result<usize> {
        let at_most = self.throttle.max_piece().map_or(at_most, |piece| at_most.min(piece));
        let since = Instant::now();
        match tokio::time::timeout(STALL_TIMEOUT, self.body.read(into, at_most)).await {
            Err(_) => Err(self.truncated("the body stalled")),
            Ok(Ok(0)) if self.left > 0 => Err(self.truncated(&format!("the body ended {} bytes early", self.left))),
            Ok(Ok(0)) if self.chunked_source.as_ref().is_some_and(|source| self.arrived < source.size) => {
                let source = self.chunked_source.take().unwrap_or_default();
                Err(transformation_error(&source, self.arrived))
            }
            Ok(Ok(came)) => {
                self.arrived += came as u64;
                self.left = self.left.saturating_sub(came as u64);
                // Time spent on the disk, or by a limit, does not count as waiting for the service.
                self.waited += since.elapsed();
                self.came += came as u64;
                if self.waited >= MIN_RATE.0 {
                    if self.came < MIN_RATE.1 && self.left > 0 {
                        let (came, seconds) = (self.came, self.waited.as_secs());
                        return Err(self.truncated(&format!("the body stalled: {came} bytes came in {seconds} s")));
                    }
                    (self.waited, self.came) = (Duration::ZERO, 0);
                }
                self.throttle.receive(came).await;
                Ok(came)
            }
            Ok(Err(error)) => Err(self.truncated(&error_chain(&error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// Reads a body of `size` bytes, of which `at_a_time` arrive each second, with pauses of `pause` seconds between
    /// reads.
    async fn read(size: u64, at_a_time: usize, pause: u64, throttle: ByteThrottle) -> Result<u64> {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        tokio::spawn(async move {
            let mut left = usize::try_from(size).unwrap();
            while left > 0 && theirs.write_all(&vec![0; left.min(at_a_time)]).await.is_ok() {
                left -= left.min(at_a_time);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let body = PooledBody::from_stream(Box::new(ours));
        let (bucket, key) = ("bucket".to_owned(), "key".to_owned());
        let mut watched = WatchedBody {
            bucket,
            key,
            body,
            throttle,
            left: size,
            chunked_source: None,
            arrived: 0,
            waited: Duration::ZERO,
            came: 0,
        };
        let (mut all, mut into) = (0, Vec::new());
        while all < size {
            into.clear();
            let came = watched.read(&mut into, 1 << 16).await?;
            all += came as u64;
            tokio::time::sleep(Duration::from_secs(pause)).await;
        }
        Ok(all)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_is_given_up_and_a_slow_one_is_not() {
        let free = ByteThrottle::default;
        assert_eq!(read(300_000, 2000, 0, free()).await.unwrap(), 300_000);
        assert_eq!(read(60, 1, 0, free()).await.unwrap(), 60, "little is left of it");
        assert_eq!(
            read(6000, 10, 60, free()).await.unwrap(),
            6000,
            "what the reader does meanwhile is not the service's fault"
        );
        assert_eq!(read(1 << 20, 10, 0, free()).await.unwrap_err().code, code::TRUNCATED);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_comes_at_the_rate_of_the_limit_however_slow_that_is() {
        let throttle = ByteThrottle::new(Some(100), tokio::time::Instant::now());
        let start = Instant::now();

        assert_eq!(read(20_000, 1 << 20, 0, throttle).await.unwrap(), 20_000);

        // The last bytes are counted, and the next ones wait for them.
        let seconds = start.elapsed().as_secs();
        assert!((158..=201).contains(&seconds), "{seconds} s");
    }
}
