//! A listing by pages, one after another: with a delimiter the folders of one level, without one every key.
//!
//! [`list`](crate::list::list) is faster for many keys without a delimiter: it fetches many pages at a time.

use seqferry_store::error::classify::code::{CONTRADICTORY_LISTING, MALFORMED};
use seqferry_store::{ListPage, ListRequest, StoreError};

use crate::client::RetryingClient;
use crate::request::RequestError;

/// Finds a listing that goes round in circles, however long they are, with one key in memory (Brent's algorithm): a
/// service that ignores the tokens of pages would be listed without end.
#[derive(Debug, Default)]
pub(crate) struct LoopGuard {
    /// Last key of the page that later ones are compared with.
    mark: Option<String>,
    /// Pages since the mark.
    pages: u64,
    /// Pages after which the mark moves; doubled each time.
    until: u64,
}

impl LoopGuard {
    /// Notes the last key of a page.
    ///
    /// # Errors
    /// When it was the last key of an earlier page.
    pub(crate) fn check_page(&mut self, bucket: &str, last: Option<&str>) -> Result<(), StoreError> {
        let Some(last) = last else { return Ok(()) };
        if self.mark.as_deref() == Some(last) {
            let error = StoreError::new("ListObjectsV2", bucket, None, CONTRADICTORY_LISTING, None);
            return Err(error.with_message(format!("the service answers with the page that ends in '{last}' again")));
        }
        if self.pages == self.until {
            (self.mark, self.pages, self.until) = (Some(last.to_owned()), 0, self.until.max(1) * 2);
        }
        self.pages += 1;
        Ok(())
    }
}

/// The pages of a listing. Holds one continuation token and one key.
#[derive(Debug)]
pub struct Pages {
    client: RetryingClient,
    request: ListRequest,
    guard: LoopGuard,
    ended: bool,
}

impl Pages {
    pub(crate) fn new(client: RetryingClient, request: ListRequest) -> Self {
        Self { client, request, guard: LoopGuard::default(), ended: false }
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
        let last = page.objects.last().map(|object| &object.key).or(page.common_prefixes.last());
        self.guard.check_page(&self.request.bucket, last.map(String::as_str))?;
        self.request.continuation.clone_from(&page.continuation);
        self.ended = page.continuation.is_none();
        Ok(Some(page))
    }
}
