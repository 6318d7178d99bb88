//! Test instruments of Seqferry; never shipped.
//!
//! - [`proxy`]: a recording fault proxy between a client and a real S3 server.
//! - [`servers`]: real S3 servers on loopback, started once per test process.
//! - [`signed`]: single signed requests by hand, for preparing servers.
//! - [`data`]: seeded bytes and odd keys.

pub mod data;
pub mod proxy;
pub mod servers;
pub mod signed;

/// The settings of the tests themselves; nothing else here reads the environment.
#[expect(clippy::disallowed_methods, reason = "tests have no entry point that could be told")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
