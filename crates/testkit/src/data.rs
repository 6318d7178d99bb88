//! Test data: seeded bytes and keys that break naive code.

use std::io::Write;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::servers::ServerKind;

/// A number that all random choices of a test process derive from: `SEQFERRY_TEST_SEED`, or one drawn and printed.
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let given = crate::variable("SEQFERRY_TEST_SEED").and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| u64::from(fastrand::u32(..)));
        // Past the capture of the test harness: it must be seen whichever test fails.
        let _ = writeln!(std::io::stderr(), "SEQFERRY_TEST_SEED={seed}");
        seed
    })
}

/// `size` bytes that look random; the same for the same seed.
pub fn bytes(seed: u64, size: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; size];
    random.fill(&mut bytes);
    bytes
}

#[derive(Deserialize)]
struct OddKeys {
    name: String,
    #[serde(default)]
    keys: Vec<String>,
    repeat: Option<RepeatedText>,
    #[serde(default)]
    unfit: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RepeatedText {
    text: String,
    times: usize,
    end: String,
}

/// A key, and the name of its oddity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OddKey {
    /// Key of at most 991 bytes, so that a short prefix fits before it.
    pub key: String,
    /// Name of the oddity that the key tests.
    pub name: String,
}

/// Keys that S3 can store and naive code breaks on; without those that a server of `kind` refuses or takes for others.
///
/// # Panics
/// When the table `odd_keys.json` is not well formed.
pub fn odd_keys(kind: Option<ServerKind>) -> Vec<OddKey> {
    let table: Vec<OddKeys> = serde_json::from_str(include_str!("../odd_keys.json")).expect("odd_keys.json");
    table
        .into_iter()
        .filter(|entry| kind.is_none_or(|kind| !entry.unfit.contains_key(kind.name())))
        .flat_map(|entry| {
            let repeated = entry.repeat.map(|repeat| repeat.text.repeat(repeat.times) + &repeat.end);
            let name = entry.name;
            entry.keys.into_iter().chain(repeated).map(move |key| OddKey { key, name: name.clone() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn bytes_depend_on_the_seed_alone() {
        assert_eq!(bytes(1, 1000), bytes(1, 1000));
        assert_ne!(bytes(1, 1000), bytes(2, 1000));
        assert_eq!(bytes(1, 0), Vec::<u8>::new());
    }

    #[test]
    fn odd_keys_are_distinct_and_fit_behind_a_prefix() {
        let all = odd_keys(None);

        assert_eq!(all.iter().map(|odd| &odd.key).collect::<HashSet<_>>().len(), all.len());
        assert!(all.iter().all(|odd| (1..=991).contains(&odd.key.len())));
        for kind in [ServerKind::Versitygw, ServerKind::Seaweedfs] {
            assert!((30..all.len()).contains(&odd_keys(Some(kind)).len()));
        }
    }
}
