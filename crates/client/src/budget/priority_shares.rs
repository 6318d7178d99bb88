//! Division of one limit between two priorities: bulk work leaves a reserve, and is never starved.

use seqferry_store::priority::{BULK_SHARE, Priority, PriorityMap};

/// Amounts of one limit that both priorities hold, and the amount that bulk work is owed.
#[derive(Debug, Default)]
pub(super) struct PriorityShares {
    used: PriorityMap<u64>,
    /// Amount granted to interactive work while bulk work waited, since bulk work was served last.
    owed: u64,
}

impl PriorityShares {
    pub(super) fn used(&self, priority: Priority) -> u64 {
        self.used[priority]
    }

    pub(super) fn total(&self) -> u64 {
        self.used[Priority::Interactive] + self.used[Priority::Bulk]
    }

    /// True when `amount` is free below `limit`, of which bulk work leaves `reserve` to interactive work.
    pub(super) fn has_room(&self, priority: Priority, amount: u64, limit: u64, reserve: u64) -> bool {
        let free = self.total() + amount <= limit;
        free && (priority == Priority::Interactive || self.is_below_reserve(amount, limit, reserve))
    }

    /// True when `amount` more of bulk work leaves the reserve untouched, whatever interactive work holds.
    pub(super) fn is_below_reserve(&self, amount: u64, limit: u64, reserve: u64) -> bool {
        self.used[Priority::Bulk] + amount <= limit.saturating_sub(reserve)
    }

    /// True when bulk work that waits for `amount` has been skipped for long enough.
    pub(super) fn owes_bulk(&self, amount: u64) -> bool {
        self.owed >= (BULK_SHARE - 1) * amount
    }

    pub(super) fn grant(&mut self, priority: Priority, amount: u64, bulk_waits: bool) {
        self.used[priority] += amount;
        self.owed = if priority == Priority::Interactive && bulk_waits { self.owed + amount } else { 0 };
    }

    pub(super) fn give_back(&mut self, priority: Priority, amount: u64) {
        self.used[priority] -= amount;
    }
}
