//! A listing by pages, one after another: with a delimiter the folders of one level, without one every key.
//!
//! [`list`](crate::list::list) is faster for many keys without a delimiter: it fetches many pages at a time.

use seqferry_store::error::classify::code::MALFORMED;
use seqferry_store::{ListPage, ListRequest, StoreError};

use crate::client::RetryingClient;
use crate::request::RequestError;

/// The pages of a listing. Holds one continuation token and no keys.
#[derive(Debug)]
pub struct Pages {
    client: RetryingClient,
    request: ListRequest,
    ended: bool,
}

impl Pages {
    pub(crate) fn new(client: RetryingClient, request: ListRequest) -> Self {
        Self { client, request, ended: false }
    }

    /// The next page; None after the last. A page may be empty and not be the last.
    ///
    /// A failed page leaves the listing where it was: calling again asks for the same page.
    ///
    /// # Errors
    /// When the page cannot be had. A listing that failed is never taken for a complete one.
    pub async fn next(&mut self) -> Result<Option<ListPage>, RequestError> {
        if self.ended {
            return Ok(None);
        }
        let page = self.client.list_page(&self.request).await?;
        if page.continuation.is_some() && page.continuation == self.request.continuation {
            let error = StoreError::new("ListObjectsV2", &self.request.bucket, None, MALFORMED, None);
            return Err(error.with_message("the service answers with the same page token again and again").into());
        }
        self.request.continuation.clone_from(&page.continuation);
        self.ended = page.continuation.is_none();
        Ok(Some(page))
    }
}
