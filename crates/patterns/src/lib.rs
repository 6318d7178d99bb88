//! Patterns that people write: wildcards and rules that rename. No I/O.
//!
//! Every pattern matches a name in time linear in its length, and the size of a compiled pattern is bounded. One
//! pattern of a client cannot keep a server busy.
//!
//! One file per concern: [`dialect`] (regular expressions as Python writes them), [`rename`] (rules that rename),
//! [`wildcard`] (`*`, `?` and `[...]`).

pub mod dialect;
pub mod rename;
pub mod wildcard;
