//! Priorities of work, and how two priorities divide one limit.
//!
//! Interactive work is served first. Bulk work is never starved: of what is granted while both wait, it gets at least
//! one part in [`BULK_SHARE`].

use std::ops::{Index, IndexMut};

/// Priority of work: either a caller waits for the reply, or the work only has to finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Priority {
    /// Reads that a program or a person waits for, such as those of a mount.
    Interactive,
    /// Work that only has to finish: transfers.
    Bulk,
}

impl Priority {
    /// Both priorities, in the order of service.
    pub const ALL: [Self; 2] = [Self::Interactive, Self::Bulk];

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Bulk => "bulk",
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Interactive => Self::Bulk,
            Self::Bulk => Self::Interactive,
        }
    }
}

/// Divisor of the share of bulk work: it gets at least 1/4 while both priorities wait. A quarter keeps transfers
/// moving; a half would make a busy mount half as fast.
pub(super) const BULK_SHARE: u64 = 4;

/// One value for each priority.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PriorityMap<T> {
    interactive: T,
    bulk: T,
}

impl<T> Index<Priority> for PriorityMap<T> {
    type Output = T;

    fn index(&self, priority: Priority) -> &T {
        match priority {
            Priority::Interactive => &self.interactive,
            Priority::Bulk => &self.bulk,
        }
    }
}

impl<T> IndexMut<Priority> for PriorityMap<T> {
    fn index_mut(&mut self, priority: Priority) -> &mut T {
        match priority {
            Priority::Interactive => &mut self.interactive,
            Priority::Bulk => &mut self.bulk,
        }
    }
}

/// Amounts of one limit that both priorities hold, and the amount that bulk work is owed.
#[derive(Debug, Default)]
pub(super) struct Shares {
    used: PriorityMap<u64>,
    /// Amount granted to interactive work while bulk work waited, since bulk work was served last.
    owed: u64,
}

impl Shares {
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

    /// True when bulk work that waits for `amount` has been passed over for long enough.
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
