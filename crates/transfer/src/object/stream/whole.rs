//! Parts from one read of the whole object, in order: for sources whose service ignores ranges.

use std::collections::BTreeMap;

use futures::stream::{FuturesUnordered, StreamExt as _};
use seqferry_client::reading::{WholeReads, fetch_whole};
use seqferry_client::{RequestError, UploadJournal};
use seqferry_store::StoreError;

use super::super::{AttemptError, Object};
use super::order::PartOrder;
use super::sent::{StreamSettings, StreamedPart};

impl<J: UploadJournal> Object<'_, J> {
    /// Send every part that is not there, from one read of the whole object. Returns the digest of a reference that has
    /// to be computed in order.
    pub(super) async fn stream_whole(
        &self,
        sending: &StreamSettings<'_>,
        sent: &mut BTreeMap<u32, StreamedPart>,
    ) -> Result<Option<String>, AttemptError> {
        let mut reads = WholeReads::default();
        loop {
            let order = sending.route.in_order().map(PartOrder::new);
            match self.feed(sending, order.as_ref(), sent).await {
                Ok(()) => return Ok(order.and_then(|order| order.finish())),
                Err(Interrupt::Broken(error)) => {
                    reads.repeat(error, &self.retry_context).map_err(|error| self.stream_error(error))?;
                }
                Err(Interrupt::Other(error)) => return Err(error),
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
        let pinned = self.pinned_source();
        let fetched = fetch_whole(self.source, &self.retry_context, &pinned, self.item.size).await;
        let (_, mut reader) = fetched.map_err(|request| match request {
            RequestError::Failed(error) => Interrupt::Other(self.stream_error(error)),
            RequestError::Cancelled => Interrupt::Other(AttemptError::Cancelled),
        })?;
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
                    // Parts that were read whole are still sent: they need not be read again.
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
