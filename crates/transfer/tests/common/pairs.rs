//! A small object and one of several parts, which most tests of faults copy.

use super::{TARGET, TransferFixture, bytes};
use seqferry_transfer::JobItem;

pub const FLAVOURS: [(&str, usize); 2] = [("small", 80), ("large", 300)];

pub async fn pair(fixture: &TransferFixture) -> Vec<JobItem> {
    let mut items = Vec::new();
    for (id, (key, size)) in FLAVOURS.into_iter().enumerate() {
        items.push(fixture.object(id as u64, key, &bytes(7, size)).await);
    }
    items
}

pub async fn assert_whole(fixture: &TransferFixture) {
    for (key, size) in FLAVOURS {
        assert_eq!(fixture.read(TARGET, &format!("copy/{key}")).await, Some(bytes(7, size)), "{key}");
    }
    assert_eq!(fixture.open_uploads().await, 0, "open uploads are left");
}
