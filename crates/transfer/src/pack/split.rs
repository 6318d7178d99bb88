//! Members that were read in several parts. Services state the checksum of an object only with all of its bytes, so that
//! the parts are joined to one CRC over the member, which is compared with the source's before the archive is made.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures::stream::{self, StreamExt as _};
use seqferry_client::reading::check_pin;
use seqferry_client::{RequestError, RequestSpec};
use seqferry_store::{Checksum, ChecksumKind, ErrorClass, ObjectMeta, ObjectRef, StoreError};

use super::parts::{FetchedRange, PartError, Sender, SentPart};
use crate::outcome::VerificationLevel;

/// HEAD requests that wait at a time. How many are under way is the budget's to decide.
const HEADS: usize = 64;

impl Sender {
    /// Compares each member that was read in several parts with the CRC that the source states of it, one HEAD for each.
    /// Members without one, and those that an earlier run has read in part, keep their level.
    pub(super) async fn verify_split_members(&self, sent: &mut BTreeMap<u32, SentPart>) -> Result<(), PartError> {
        if !self.source.capabilities().digests {
            return Ok(());
        }
        let ranges = self.split_members(sent);
        let checks: Vec<_> = ranges.iter().map(|(member, ranges)| self.has_stated_crc(*member, ranges)).collect();
        let mut checks = stream::iter(checks).buffer_unordered(HEADS);
        let mut verified = HashSet::new();
        while let Some(proven) = checks.next().await {
            verified.extend(proven?);
        }
        drop(checks);
        let fetches = sent.values_mut().flat_map(|part| &mut part.fetches);
        for fetch in fetches.filter(|fetch| verified.contains(&fetch.member)) {
            fetch.verified = VerificationLevel::Checksum;
        }
        Ok(())
    }

    /// Ranges, in order, of each member whose bytes this run has read in several parts.
    fn split_members(&self, sent: &BTreeMap<u32, SentPart>) -> HashMap<usize, Vec<FetchedRange>> {
        let mut members: HashMap<usize, Vec<FetchedRange>> = HashMap::new();
        for fetch in sent.values().flat_map(|part| &part.fetches).filter(|fetch| !fetch.other_crcs.is_empty()) {
            members.entry(fetch.member).or_default().push(fetch.clone());
        }
        for ranges in members.values_mut() {
            ranges.sort_by_key(|fetch| fetch.range.start);
        }
        members.retain(|member, ranges| {
            let read: u64 = ranges.iter().map(|fetch| fetch.range.end - fetch.range.start).sum();
            read == self.members.items()[*member].size
        });
        members
    }

    /// Returns the member if the source states a CRC of it that can be joined, and its parts have that.
    async fn has_stated_crc(&self, member: usize, ranges: &[FetchedRange]) -> Result<Option<usize>, PartError> {
        let Some(stated) = self.head_member(member).await?.and_then(|meta| meta.checksum) else { return Ok(None) };
        let values: Option<Vec<(&str, u64)>> = ranges
            .iter()
            .map(|fetch| Some((fetch.crc(stated.algorithm)?, fetch.range.end - fetch.range.start)))
            .collect();
        let Some(value) = values.and_then(|values| stated.algorithm.joined(values)) else { return Ok(None) };
        let read = Checksum { algorithm: stated.algorithm, value, kind: ChecksumKind::FullObject };
        match read.agrees(&stated) {
            Some(false) => {
                let (name, value) = (stated.algorithm.name(), &stated.value);
                let how = format!("the source states {name} {value}, and the bytes read in parts have {}", read.value);
                Err(PartError::Misread(member, how))
            }
            agrees => Ok(agrees.and(Some(member))),
        }
    }

    /// Facts about a member, which must be what was found. None: these credentials may not ask for them.
    async fn head_member(&self, member: usize) -> Result<Option<ObjectMeta>, PartError> {
        let pinned = self.members.pinned(&self.source_bucket, member);
        let object = ObjectRef::new(&pinned.bucket, &pinned.key).at_version(pinned.version_id.as_deref());
        let spec = RequestSpec::read("HeadObject", &pinned.bucket);
        let head = self.source.call(spec, &self.retry_context, async |store| {
            let meta = store.head(object, None).await?;
            check_pin(&pinned, &meta)?;
            Ok::<_, StoreError>(meta)
        });
        match head.await {
            Ok(meta) => Ok(Some(meta)),
            Err(RequestError::Cancelled) => Err(PartError::Cancelled),
            Err(RequestError::Failed(error)) if error.is_denied() || error.class == ErrorClass::Capability => Ok(None),
            Err(RequestError::Failed(error)) => Err(PartError::Member(member, error)),
        }
    }
}
