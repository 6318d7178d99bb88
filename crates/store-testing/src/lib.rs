//! Support for tests of stores: a store in memory, fault injection and the conformance suite.
//!
//! [`MemoryStore`] keeps objects in memory. [`fault::FaultStore`] is a wrapper that injects faults. [`conformance`] is
//! the suite that every implementation and wrapper passes. [`methods_not_forwarded`] shows which methods a layer keeps
//! from the store below it.
//!
//! The tools are a separate crate, so that the crates above the store are compiled once, for the wheel and for their
//! tests.

pub mod conformance;
pub mod fault;
mod memory;
mod recording;
mod short_forms;

pub use memory::{ConditionalWrite, MemoryStore};
pub use recording::methods_not_forwarded;
pub use short_forms::{ObjectWriteExt, connect};
