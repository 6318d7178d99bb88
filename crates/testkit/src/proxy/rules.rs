//! Rules of the proxy: the requests they change, and how. The same words in Rust and in JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::classify::{OPERATIONS, RequestInfo};

/// One instruction: requests that match it meet its action.
///
/// Rules are checked in the order in which they were added. After [`Action::DropHeader`], [`Action::Delay`] and
/// [`Action::Hold`] the next rules apply as well; any other action decides the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyRule {
    /// Operations as S3 names them (`UploadPartCopy`, ...); empty for all.
    #[serde(default)]
    pub operations: Vec<String>,
    /// A glob over bucket names: `*` any run of characters, `?` any one.
    #[serde(default)]
    pub bucket: Option<String>,
    /// A glob over keys; here `*` crosses `/`.
    #[serde(default)]
    pub key: Option<String>,
    /// The one key, letter by letter, for keys that hold `*` or `?`.
    #[serde(default)]
    pub key_is: Option<String>,
    /// Part numbers; empty for all.
    #[serde(default)]
    pub part_numbers: Vec<u32>,
    /// Access key id that signed the request.
    #[serde(default)]
    pub access_key: Option<String>,
    /// Number of matching requests that pass untouched before the rule applies.
    #[serde(default)]
    pub after: u64,
    /// Interval after that: the first of every `every` matching requests is touched.
    #[serde(default = "one")]
    pub every: u64,
    /// Largest number of requests to touch.
    #[serde(default)]
    pub times: Option<u64>,
    /// Chance that a request is touched, drawn from `seed`.
    #[serde(default)]
    pub probability: Option<f64>,
    /// Seed for `probability`: the same seed and order of requests give the same draws.
    #[serde(default)]
    pub seed: u64,
    /// Action taken on a touched request.
    pub action: Action,
}

fn one() -> u64 {
    1
}

/// Action of a rule on a touched request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Answer an error in S3's form; the server never hears of the request.
    Error {
        /// HTTP status.
        status: u16,
        /// S3 error code.
        code: String,
        /// S3 error message.
        #[serde(default)]
        message: String,
        /// Further headers of the reply, such as `Retry-After`.
        #[serde(default)]
        headers: BTreeMap<String, String>,
        /// Further elements of the body, such as `Endpoint` or `Region`.
        #[serde(default)]
        elements: BTreeMap<String, String>,
    },
    /// Answer 200 with an error as body, as S3 may for `CopyObject`, `UploadPartCopy` and `CompleteMultipartUpload`.
    #[serde(rename = "error_in_200")]
    ErrorIn200 {
        /// S3 error code.
        code: String,
        /// S3 error message.
        #[serde(default)]
        message: String,
        /// Number of blanks between the XML declaration and the error, as S3 sends them to keep a connection alive.
        #[serde(default)]
        white_space: usize,
        /// Let the server carry the request out first.
        #[serde(default)]
        forward: bool,
    },
    /// Reset the connection; the server never hears of the request.
    Reset,
    /// Let the server carry the request out, then reset the connection in place of the reply.
    LoseReply,
    /// Break the connection after `keep` bytes of the reply's body.
    Truncate {
        /// Bytes of the body that arrive.
        keep: u64,
    },
    /// Flip one byte of the reply's body.
    Corrupt {
        /// Its offset; past the end nothing happens.
        at: u64,
    },
    /// Flip one byte of the request's body on its way to the server. Its headers stay, checksums among them.
    CorruptRequest {
        /// Offset of the byte, counted on from the start again where the body is shorter: every body but an empty one
        /// is corrupted.
        at: u64,
    },
    /// Pass the request on without this header, as some proxies do.
    DropHeader {
        /// Its name.
        name: String,
    },
    /// Wait before forwarding, before replying, or both. Milliseconds.
    Delay {
        /// Delay before the request is sent to the server.
        #[serde(default)]
        request_ms: u64,
        /// Delay between the server's reply and the client's.
        #[serde(default)]
        reply_ms: u64,
    },
    /// Stop until released. A request whose client leaves while it is stopped on the request's side is never forwarded,
    /// unless it has a body above 1 MiB: then the leaving shows only when the body is read.
    Hold {
        /// Side on which the request stops.
        #[serde(default)]
        at: RequestSide,
    },
}

/// Side of the exchange, request or reply, on which a request is held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestSide {
    /// The request is held before it is sent to the server.
    #[default]
    Request,
    /// The reply of the server is held before it is sent to the client.
    Reply,
}

impl Action {
    /// An error reply with no particulars.
    pub fn error(status: u16, code: &str) -> Self {
        Self::Error {
            status,
            code: code.to_owned(),
            message: format!("{code}, by order of the test"),
            headers: BTreeMap::new(),
            elements: BTreeMap::new(),
        }
    }

    /// The same with a header more. Changes nothing on other actions.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        if let Self::Error { headers, .. } = &mut self {
            headers.insert(name.to_owned(), value.to_owned());
        }
        self
    }

    /// A 200 that holds an error; the server never hears of the request.
    pub fn error_in_200(code: &str) -> Self {
        Self::ErrorIn200 { code: code.to_owned(), message: String::new(), white_space: 0, forward: false }
    }

    /// Returns true when the rules after this one still apply.
    pub(super) fn passes_on(&self) -> bool {
        matches!(self, Self::DropHeader { .. } | Self::Delay { .. } | Self::Hold { .. })
    }
}

impl ProxyRule {
    /// A rule for one operation that touches all its requests.
    pub fn on(operation: &str, action: Action) -> Self {
        Self {
            operations: vec![operation.to_owned()],
            bucket: None,
            key: None,
            key_is: None,
            part_numbers: Vec::new(),
            access_key: None,
            after: 0,
            every: 1,
            times: None,
            probability: None,
            seed: 0,
            action,
        }
    }

    /// Restricts the rule to keys that match this glob.
    #[must_use]
    pub fn key(mut self, glob: &str) -> Self {
        self.key = Some(glob.to_owned());
        self
    }

    /// Restricts the rule to buckets that match this glob.
    #[must_use]
    pub fn bucket(mut self, glob: &str) -> Self {
        self.bucket = Some(glob.to_owned());
        self
    }

    /// Adds this part to those that the rule is restricted to.
    #[must_use]
    pub fn part(mut self, number: u32) -> Self {
        self.part_numbers.push(number);
        self
    }

    /// Lets `count` matching requests pass first.
    #[must_use]
    pub fn after(mut self, count: u64) -> Self {
        self.after = count;
        self
    }

    /// Largest number of requests to touch.
    #[must_use]
    pub fn times(mut self, count: u64) -> Self {
        self.times = Some(count);
        self
    }

    /// Touch each with this chance.
    #[must_use]
    pub fn with_probability(mut self, probability: f64, seed: u64) -> Self {
        self.probability = Some(probability);
        self.seed = seed;
        self
    }

    /// Returns the reason why the rule is invalid, if any: a rule that never fires would let a test pass for nothing.
    pub(super) fn problem(&self) -> Option<String> {
        if let Some(unknown) = self.operations.iter().find(|name| !OPERATIONS.contains(&name.as_str())) {
            return Some(format!("no operation is called {unknown}"));
        }
        if self.every == 0 {
            return Some("every must be 1 or more".to_owned());
        }
        if self.probability.is_some_and(|chance| !(0.0..=1.0).contains(&chance)) {
            return Some("probability lies between 0 and 1".to_owned());
        }
        if let Action::Error { status, .. } = &self.action
            && !(300..=599).contains(status)
        {
            return Some(format!("an error's status lies between 300 and 599, not {status}"));
        }
        None
    }

    fn matches(&self, call: &RequestInfo) -> bool {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        (self.operations.is_empty() || self.operations.iter().any(|name| name == call.operation))
            && self.bucket.as_ref().is_none_or(|pattern| glob(pattern, &text(&call.bucket)))
            && self.key.as_ref().is_none_or(|pattern| glob(pattern, &text(&call.key)))
            && self.key_is.as_ref().is_none_or(|key| Some(key) == call.key.as_ref())
            && (self.part_numbers.is_empty() || call.part_number.is_some_and(|part| self.part_numbers.contains(&part)))
            && self.access_key.as_ref().is_none_or(|key| Some(key) == call.access_key.as_ref())
    }
}

/// A rule with what became of it so far.
#[derive(Debug)]
pub(super) struct RuleState {
    pub(super) id: u64,
    pub(super) rule: ProxyRule,
    pub(super) matched: u64,
    pub(super) fired: u64,
    random: fastrand::Rng,
}

impl RuleState {
    pub(super) fn new(id: u64, rule: ProxyRule) -> Self {
        let random = fastrand::Rng::with_seed(rule.seed);
        Self { id, rule, matched: 0, fired: 0, random }
    }

    /// Counts the request if it matches; true when the action is to be taken.
    pub(super) fn fires_on(&mut self, call: &RequestInfo) -> bool {
        if !self.rule.matches(call) {
            return false;
        }
        self.matched += 1;
        let drawn = self.rule.probability.is_none_or(|chance| self.random.f64() < chance);
        let due =
            self.matched > self.rule.after && (self.matched - self.rule.after - 1).is_multiple_of(self.rule.every);
        let left = self.rule.times.is_none_or(|times| self.fired < times);
        let fires = drawn && due && left;
        self.fired += u64::from(fires);
        fires
    }
}

/// Returns true when all of `text` matches `pattern`: `*` stands for any run of characters, `?` for any one.
fn glob(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut at_pattern, mut at_text) = (0, 0);
    // Where the last `*` was, and how far the text that it stands for reaches meanwhile.
    let mut star: Option<(usize, usize)> = None;
    while at_text < text.len() {
        match pattern.get(at_pattern) {
            Some('*') => {
                star = Some((at_pattern, at_text));
                at_pattern += 1;
            }
            Some(&expected) if expected == '?' || expected == text[at_text] => {
                at_pattern += 1;
                at_text += 1;
            }
            _ => {
                let Some((star_pattern, star_text)) = star else { return false };
                star = Some((star_pattern, star_text + 1));
                at_pattern = star_pattern + 1;
                at_text = star_text + 1;
            }
        }
    }
    pattern[at_pattern..].iter().all(|&rest| rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(operation: &'static str, key: &str, part_number: Option<u32>) -> RequestInfo {
        RequestInfo {
            operation,
            bucket: Some("bucket".to_owned()),
            key: Some(key.to_owned()),
            part_number,
            upload_id: None,
            copy_source: None,
            range: None,
            access_key: Some("KEY".to_owned()),
        }
    }

    fn fired(rule: ProxyRule, calls: usize) -> Vec<bool> {
        let mut state = RuleState::new(1, rule);
        (0..calls).map(|_| state.fires_on(&call("PutObject", "k", None))).collect()
    }

    #[test]
    fn globs_match_whole_texts() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a/*", "a/b/c", true),
            ("a/*", "b/a/c", false),
            ("*.gz", "x.gz.gz", true),
            ("*a*b", "aab", true),
            ("*a*b", "aba", false),
            ("r?n", "run", true),
            ("r?n", "rn", false),
            ("ü?", "üß", true),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn a_rule_looks_at_operation_bucket_key_part_and_signer() {
        let rule = || ProxyRule::on("UploadPartCopy", Action::Reset);
        let hits = |rule: ProxyRule, call: &RequestInfo| RuleState::new(1, rule).fires_on(call);
        let part = call("UploadPartCopy", "a/x.gz", Some(2));

        assert!(hits(rule(), &part));
        assert!(!hits(rule(), &call("UploadPart", "a/x.gz", Some(2))));
        assert!(hits(rule().key("a/*").bucket("buck*").part(2), &part));
        assert!(!hits(rule().key("b/*"), &part));
        assert!(!hits(rule().bucket("other"), &part));
        assert!(!hits(rule().part(1), &part));
        assert!(!hits(ProxyRule { key_is: Some("a/*".to_owned()), ..rule() }, &part));
        assert!(!hits(ProxyRule { access_key: Some("ELSE".to_owned()), ..rule() }, &part));
    }

    #[test]
    fn a_rule_chooses_among_its_matches_by_count() {
        let rule = || ProxyRule::on("PutObject", Action::Reset);

        assert_eq!(fired(rule().after(2).times(1), 5), [false, false, true, false, false]);
        assert_eq!(fired(ProxyRule { every: 2, ..rule() }, 5), [true, false, true, false, true]);
        assert_eq!(
            fired(ProxyRule { every: 2, ..rule().after(1).times(2) }, 6),
            [false, true, false, true, false, false]
        );
    }

    #[test]
    fn chance_depends_on_the_seed_alone() {
        let rule = |seed| ProxyRule::on("PutObject", Action::Reset).with_probability(0.3, seed);

        let first = fired(rule(7), 1000);

        assert_eq!(first, fired(rule(7), 1000));
        assert_ne!(first, fired(rule(8), 1000));
        assert!((200..400).contains(&first.iter().filter(|fired| **fired).count()));
    }

    #[test]
    fn a_rule_that_could_never_fire_is_refused() {
        assert!(ProxyRule::on("PutObjekt", Action::Reset).problem().is_some());
        assert!(ProxyRule::on("PutObject", Action::error(200, "OK")).problem().is_some());
        assert!(ProxyRule { every: 0, ..ProxyRule::on("PutObject", Action::Reset) }.problem().is_some());
        assert!(ProxyRule::on("PutObject", Action::error(503, "SlowDown")).problem().is_none());
    }

    #[test]
    fn rules_read_from_json_refuse_unknown_words() {
        let good =
            r#"{"operations": ["CopyObject"], "times": 1, "action": {"do": "error_in_200", "code": "InternalError"}}"#;
        let bad = r#"{"operations": ["CopyObject"], "time": 1, "action": {"do": "reset"}}"#;

        assert!(serde_json::from_str::<ProxyRule>(good).is_ok());
        assert!(serde_json::from_str::<ProxyRule>(bad).is_err());
        assert!(serde_json::from_str::<ProxyRule>(r#"{"action": {"do": "truncate", "bytes": 1}}"#).is_err());
    }
}
