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

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Interactive => Self::Bulk,
            Self::Bulk => Self::Interactive,
        }
    }
}

/// Divisor of the share of bulk work: it gets at least 1/4 while both priorities wait. A quarter keeps transfers
/// moving; a half would make a busy mount half as fast.
pub const BULK_SHARE: u64 = 4;

/// One value for each priority.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PriorityMap<T> {
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
