//! Test instruments of Seqferry; never shipped.
//!
//! - [`proxy`]: a recording fault proxy between a client and a real S3 server.

pub mod proxy;
