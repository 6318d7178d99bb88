//! Reads of a whole object from its first byte, for services that return its bytes in no other way.

use seqferry_store::{ErrorClass, FetchedObject, ObjectMeta, PinnedObject, StoreError};

use super::{PinnedReader, fetch_pinned};
use crate::client::RetryingClient;
use crate::request::{RequestError, RequestSpec, RetryContext};

/// Most reads of one object: none of them can be resumed.
const READS: u32 = 4;

/// Decides whether a read of a whole object that broke starts over.
#[derive(Debug)]
pub struct WholeReads {
    reads: u32,
}

impl Default for WholeReads {
    fn default() -> Self {
        Self { reads: 1 }
    }
}

impl WholeReads {
    /// Counts one more read after one that broke.
    ///
    /// # Errors
    /// The error itself, when its class is final or the limit is reached.
    pub fn repeat(&mut self, error: StoreError, retry_context: &RetryContext) -> Result<(), StoreError> {
        if self.reads >= READS || error.class != ErrorClass::Retry {
            return Err(error);
        }
        self.reads += 1;
        retry_context.count_retry();
        Ok(())
    }
}

/// Requests a whole pinned object, of which `size` bytes are expected. Returns what the answer states, and its body.
///
/// # Errors
/// Those of [`fetch_pinned`], after all retries.
pub async fn fetch_whole<'a>(
    client: &RetryingClient,
    retry_context: &RetryContext,
    source: &'a PinnedObject,
    size: u64,
) -> Result<(ObjectMeta, PinnedReader<'a>), RequestError> {
    let call = RequestSpec::read("GetObject", &source.bucket).bytes(size).once();
    let fetched = client.call(call, retry_context, async |store| fetch_pinned(&*store, source, None).await).await;
    let FetchedObject { meta, body } = fetched?;
    Ok((meta, PinnedReader::new(body, source)))
}

#[cfg(test)]
mod tests {
    use seqferry_store::error::classify::code;

    use super::*;

    fn error(code: &str) -> StoreError {
        StoreError::new("GetObject", "b", Some("k"), code, None)
    }

    #[test]
    fn a_broken_read_starts_over_up_to_the_limit_and_is_counted() {
        let (mut reads, context) = (WholeReads::default(), RetryContext::default());
        for _ in 1..READS {
            assert!(reads.repeat(error(code::TRUNCATED), &context).is_ok());
        }
        assert_eq!(context.retries(), READS - 1);

        let last = reads.repeat(error(code::TRUNCATED), &context).expect_err("the limit is reached");

        assert_eq!((last.code.as_str(), context.retries()), (code::TRUNCATED, READS - 1));
    }

    #[test]
    fn a_final_error_ends_the_first_read() {
        for code in ["PreconditionFailed", "NoSuchKey", "AccessDenied", "SlowDown"] {
            assert!(WholeReads::default().repeat(error(code), &RetryContext::default()).is_err(), "{code}");
        }
    }
}
