//! Patterns that people write: wildcards and rules that rename. No I/O.
//!
//! A name takes time that is linear in its length, for every pattern, and the size of a compiled pattern is
//! bounded: a client of a server must not be able to keep it busy with one pattern.
//!
//! One file per concern: [`dialect`] (regular expressions as Python writes them), [`rename`] (rules that rename),
//! [`wildcard`] (`*`, `?` and `[...]`).

pub mod dialect;
pub mod rename;
pub mod wildcard;
