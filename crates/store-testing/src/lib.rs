//! Support for tests of stores: [`fault::FaultStore`], a wrapper that fails on purpose, and [`conformance`], the suite that
//! every implementation and wrapper passes.
//!
//! A crate of its own, so that the crates above the store are compiled once, for the wheel and for their tests.

pub mod conformance;
pub mod fault;
