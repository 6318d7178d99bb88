//! Tests of the crate as its users see it: against other programs, hostile archives and random damage.

mod corpus;
mod differential;
mod foreign;
mod hostile;
mod index;
mod layout;
mod properties;
mod raw;
mod support;
mod tree;
