//! Parts from one read of the whole object, in order: for sources whose service ignores ranges.

use std::collections::BTreeMap;

use futures::stream::{FuturesUnordered, StreamExt as _};
use seqferry_client::reading::{PinnedReader, fetch_pinned};
use seqferry_client::{RequestError, RequestSpec, UploadJournal};
use seqferry_store::{ErrorClass, FetchedObject, StoreError};

use super::super::{AttemptError, Object};
use super::order::PartOrder;
use super::sent::{StreamSettings, StreamedPart};

/// Most attempts at one read of the whole object.
pub(super) const WHOLE_READS: u32 = 4;

impl<J: UploadJournal> Object<'_, J> {
    /// Send every part that is not there, from one read of the whole object. Returns the digest of a reference that has
    /// to be computed in order.
    pub(super) async fn stream_whole(
        &self,
        sending: &StreamSettings<'_>,
        sent: &mut BTreeMap<u32, StreamedPart>,
    ) -> Result<Option<String>, AttemptError> {
        let mut reads = 1;
        loop {
            let order = sending.route.in_order().map(PartOrder::new);
            match self.feed(sending, order.as_ref(), sent).await {
                Ok(()) => return Ok(order.and_then(|order| order.finish())),
                Err(Interrupt::Broken(error)) if reads < WHOLE_READS && error.class == ErrorClass::Retry => {
                    reads += 1;
                    self.retry_context.count_retry();
                }
                Err(Interrupt::Broken(error)) => return Err(self.stream_trouble(error)),
                Err(Interrupt::Other(trouble)) => return Err(trouble),
            }
        }
    }

    /// One read of the whole object.
    async fn feed(
        &self,
        sending: &StreamSettings<'_>,
        order: Option<&PartOrder>,
        sent: &mut BTreeMap<u32, StreamedPart>,
    ) -> Result<(), Interrupt> {
        let pinned = self.pinned();
        let call = RequestSpec::read("GetObject", &pinned.bucket).bytes(self.item.size).once();
        let fetched =
            self.source.call(call, &self.retry_context, async |store| fetch_pinned(&*store, &pinned, None).await).await;
        let FetchedObject { body, .. } = match fetched {
            Ok(fetched) => fetched,
            Err(RequestError::Failed(error)) => return Err(Interrupt::Other(self.stream_trouble(error))),
            Err(RequestError::Cancelled) => return Err(Interrupt::Other(AttemptError::Cancelled)),
        };
        let mut reader = PinnedReader::new(body, &pinned);
        let mut parts = FuturesUnordered::new();
        let plan = sending.plan();
        for number in 1..=plan.count() {
            let Some(range) = plan.range(number) else { break };
            let read = async {
                let memory =
                    self.source.reserve_bytes(range.len()).await.map_err(|why| Interrupt::Other(why.into()))?;
                let piece = reader.take(range.len(), &sending.algorithms).await.map_err(Interrupt::Broken)?;
                Ok::<_, Interrupt>((memory, piece))
            };
            let mut read = std::pin::pin!(read);
            let read = loop {
                tokio::select! {
                    biased;
                    () = self.source.cancel().cancelled() => return Err(Interrupt::Other(AttemptError::Cancelled)),
                    Some(part) = parts.next() => {
                        let part: Result<(u32, StreamedPart), AttemptError> = part;
                        let (number, part) = part.map_err(Interrupt::Other)?;
                        sent.insert(number, part);
                    }
                    read = &mut read => break read,
                }
            };
            let (memory, piece) = match read {
                Ok(read) => read,
                Err(why) => {
                    // Parts that were read whole are sent all the same: they need not be read again.
                    while let Some(part) = parts.next().await {
                        let (number, part): (u32, StreamedPart) = part.map_err(Interrupt::Other)?;
                        sent.insert(number, part);
                    }
                    return Err(why);
                }
            };
            if sent.contains_key(&number) {
                if let Some(order) = order {
                    order.feed(number, piece.bytes).await;
                }
                continue;
            }
            parts.push(async move {
                Ok::<_, AttemptError>((number, self.send(sending, order, number, piece, memory).await?))
            });
        }
        while let Some(part) = parts.next().await {
            let part: Result<(u32, StreamedPart), AttemptError> = part;
            let (number, part) = part.map_err(Interrupt::Other)?;
            sent.insert(number, part);
        }
        reader.end().await.map_err(Interrupt::Broken)
    }
}

/// Reason why one read of the whole object ended early.
pub(super) enum Interrupt {
    /// The read broke.
    Broken(StoreError),
    /// Anything else.
    Other(AttemptError),
}
