//! The second check of members that were changed a moment before they were read ([`crate::recheck`]).
//!
//! It is made once for all of them, before the archive becomes visible.

use std::time::Duration;

use seqferry_client::KeyLookup;
use seqferry_store::StoreError;

use super::error::PackError;
use super::job::PackJob;
use super::parts::Sender;

impl PackJob {
    /// Settling time of the members: objects of a service do not grow.
    pub(super) fn settling_time(&self) -> Duration {
        if self.source.capabilities().in_place_changes { self.policy.settle } else { Duration::ZERO }
    }

    /// Fails when a member has changed since it was read. Waits for those that were young.
    pub(super) async fn require_rest(&self, sender: &Sender) -> Result<(), PackError> {
        if self.settling_time().is_zero() {
            return Ok(());
        }
        // Members without bytes were not read.
        let empty: Vec<usize> =
            (0..).zip(self.members.items()).filter(|(_, item)| item.size == 0).map(|(n, _)| n).collect();
        let opening = sender.young.opening();
        for (member, modified) in self.require_unchanged(&empty).await? {
            sender.young.note(member, modified, opening);
        }
        let young = sender.young.take();
        for opening in young.values() {
            opening.wait_until_settled(self.source.cancel()).await?;
        }
        let members: Vec<usize> = young.keys().copied().collect();
        for (member, modified) in self.require_unchanged(&members).await? {
            if young[&member].is_within_tick(modified) {
                return Err(self.change_error(member));
            }
        }
        Ok(())
    }

    /// Returns these members with their modification times; fails for the first that is not as it was found.
    async fn require_unchanged(&self, members: &[usize]) -> Result<Vec<(usize, f64)>, PackError> {
        let items = self.members.items();
        let keys = members.iter().map(|member| items[*member].source_key.clone()).collect();
        let found = self.source.look_up(&self.policy.source_bucket, keys).await?;
        let mut times = Vec::with_capacity(members.len());
        for (&member, (_, lookup)) in members.iter().zip(found) {
            match lookup {
                KeyLookup::Object(meta) if meta.etag == items[member].etag => times.push((member, meta.last_modified)),
                KeyLookup::Object(_) => return Err(self.change_error(member)),
                KeyLookup::NoObject(error) => return Err(PackError::failed(Some(member), *error)),
                KeyLookup::Absent => return Err(self.absence_error(member)),
            }
        }
        Ok(times)
    }

    fn change_error(&self, member: usize) -> PackError {
        let key = &self.members.items()[member].source_key;
        let error = StoreError::new("HeadObject", &self.policy.source_bucket, Some(key), "SourceChanged", None);
        PackError::again(Some(member), self.change_failure(member, &error))
    }

    fn absence_error(&self, member: usize) -> PackError {
        let key = &self.members.items()[member].source_key;
        let error = StoreError::new("HeadObject", &self.policy.source_bucket, Some(key), "NoSuchKey", Some(404));
        PackError::again(Some(member), self.change_failure(member, &error))
    }
}
