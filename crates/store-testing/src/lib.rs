//! Support for tests of stores: a store in memory, fault injection and the conformance suite.
//!
//! [`MemoryStore`] keeps objects in memory. [`fault::FaultStore`] is a wrapper that fails on purpose. [`conformance`]
//! is the suite that every implementation and wrapper passes.
//!
//! A crate of its own, so that the crates above the store are compiled once, for the wheel and for their tests.

pub mod conformance;
pub mod fault;
mod memory;

pub use memory::MemoryStore;
