//! Test instruments of Seqferry; never shipped.
//!
//! - [`proxy`]: a recording fault proxy between a client and a real S3 server.
//! - [`servers`]: real S3 servers on loopback, started once per test process.
//! - [`signed`]: single signed requests by hand, for preparing servers.
//! - [`sim`]: an S3 service made of arithmetic, for limits and sizes that no laptop has.
//! - [`data`]: seeded bytes and odd keys.

mod classify;
mod connection;
pub mod data;
mod date;
pub mod proxy;
pub mod servers;
pub mod signed;
pub mod sim;

/// The settings of the tests themselves; nothing else here reads the environment.
#[expect(clippy::disallowed_methods, reason = "tests have no entry point that could pass the settings on")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
