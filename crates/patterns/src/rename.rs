//! Rules that rename: each replaces what a regular expression matches in a name.
//!
//! The time of one search is linear in the name. A rule for every match searches again behind each match, which can
//! take quadratic time. The time of all rules is therefore measured, and a limit ends rules that take too long.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use regex_automata::Input;
use regex_automata::meta::{BuildError, Regex};
use regex_automata::util::captures::Captures;
use regex_automata::util::syntax;
use rustix::time::{ClockId, clock_gettime};

use crate::dialect::{Reason, translate};

/// Longest name that is renamed, and that a rule may make, in bytes: a path of a disk has 4,096, a key 1,024.
pub const MAX_NAME: usize = 4096;
/// Bytes of the automaton of a pattern. One with ten `\w+` takes a quarter.
const MAX_COMPILED: usize = 1024 * 1024;
/// Bytes of all rules of a list, compiled.
const MAX_LIST: usize = 32 * 1024 * 1024;
/// Bytes that one pattern may keep of what it has found out about names; it continues slower without.
const MAX_KEPT: usize = 256 * 1024;
/// Product of the bytes of compiled rules and of a name that takes some milliseconds at worst, and usually far less.
const SHORT: usize = 32 * 1024 * 1024;
/// Time that rules may take of a processor before their mean counts: one name may be a bad one.
const GRACE: Duration = Duration::from_secs(1);
/// Mean time of a name, all rules together. A hundred rules take a tenth of it.
const MEAN: Duration = Duration::from_millis(1);

/// One rule, as it was written.
#[derive(Clone, Debug)]
pub struct WrittenRule {
    /// A regular expression as Python writes them.
    pub pattern: String,
    /// Texts and groups that take the place of a match.
    pub replacement: Vec<Piece>,
    /// Upper and lower case are alike.
    pub ignores_case: bool,
    /// Every match is replaced, else the first one.
    pub is_global: bool,
}

/// A part of a replacement.
#[derive(Clone, Debug)]
pub enum Piece {
    /// This text.
    Text(String),
    /// The match of a group; 0 is the whole match.
    Group(usize),
}

/// Reason why a rule cannot be used, or a name not be renamed.
#[derive(Debug, PartialEq, Eq)]
pub enum RuleFault {
    /// The pattern of a rule, by its number, is invalid or does not match in linear time.
    Pattern(usize, Reason),
    /// The replacement of a rule, by its number, names a group; the pattern has fewer, in number as given.
    Group(usize, usize, usize),
    /// All rules together take too much memory.
    List,
    /// The name is longer than [`MAX_NAME`], or a rule makes it so.
    LongName,
    /// The rules have taken so many milliseconds for so many names.
    Slow(u64, u64),
}

/// Rules that are applied one after another.
#[derive(Debug)]
pub struct Rules {
    compiled: Vec<Rule>,
    /// Bytes.
    size: usize,
    names: AtomicU64,
    nanoseconds: AtomicU64,
}

#[derive(Debug)]
struct Rule {
    regex: Regex,
    replacement: Vec<Piece>,
    is_global: bool,
}

impl Rules {
    /// Compiles rules.
    pub fn new(written: Vec<WrittenRule>) -> Result<Self, RuleFault> {
        let mut rules = Vec::with_capacity(written.len());
        let mut size = 0;
        for (number, rule) in written.into_iter().enumerate() {
            let fault = |reason| RuleFault::Pattern(number, reason);
            let found = translate(&rule.pattern).map_err(fault)?;
            for piece in &rule.replacement {
                if let Piece::Group(group) = piece
                    && *group > found.groups
                {
                    return Err(RuleFault::Group(number, *group, found.groups));
                }
            }
            let regex = compile(&found.pattern, rule.ignores_case).map_err(|error| fault(reason(&error)))?;
            size += regex.memory_usage();
            if size > MAX_LIST {
                return Err(RuleFault::List);
            }
            rules.push(Rule { regex, replacement: rule.replacement, is_global: rule.is_global });
        }
        Ok(Self { compiled: rules, size, names: AtomicU64::new(0), nanoseconds: AtomicU64::new(0) })
    }

    /// The name after all rules.
    pub fn renamed(&self, name: &str) -> Result<String, RuleFault> {
        if name.len() > MAX_NAME {
            return Err(RuleFault::LongName);
        }
        let watch = Stopwatch::start();
        let before = self.nanoseconds.load(Ordering::Relaxed);
        let names = self.names.fetch_add(1, Ordering::Relaxed) + 1;
        let within = || {
            let spent = Duration::from_nanos(before) + watch.spent();
            let allowed = GRACE + MEAN.saturating_mul(u32::try_from(names).unwrap_or(u32::MAX));
            let milliseconds = u64::try_from(spent.as_millis()).unwrap_or(u64::MAX);
            if spent > allowed { Err(RuleFault::Slow(milliseconds, names)) } else { Ok(()) }
        };
        let mut renamed = name.to_owned();
        let result = self.compiled.iter().try_for_each(|rule| {
            within()?;
            renamed = rule.apply(&renamed, &within)?;
            Ok(())
        });
        let spent = u64::try_from(watch.spent().as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(spent, Ordering::Relaxed);
        result.map(|()| renamed)
    }

    /// True when a name can take long enough to let others work meanwhile.
    pub fn may_take_long(&self, name: &str) -> bool {
        self.size.saturating_mul(name.len()) > SHORT
    }
}

impl Rule {
    fn apply(&self, name: &str, within: &impl Fn() -> Result<(), RuleFault>) -> Result<String, RuleFault> {
        let mut found = self.regex.create_captures();
        self.regex.search_captures(&Input::new(name), &mut found);
        let mut out = String::with_capacity(name.len());
        let mut copied = 0;
        while let Some(whole) = found.get_match() {
            out.push_str(&name[copied..whole.start()]);
            copied = whole.end();
            self.replace(name, &found, &mut out);
            if out.len() > MAX_NAME {
                return Err(RuleFault::LongName);
            }
            if !self.is_global {
                break;
            }
            within()?;
            // As in Python, the next match may be empty where a match ended, unless that was empty as well.
            let mut from = whole.end();
            if whole.is_empty() {
                let Some(character) = name[from..].chars().next() else { break };
                from += character.len_utf8();
            }
            self.regex.search_captures(&Input::new(name).range(from..), &mut found);
        }
        out.push_str(&name[copied..]);
        if out.len() > MAX_NAME { Err(RuleFault::LongName) } else { Ok(out) }
    }

    fn replace(&self, name: &str, found: &Captures, out: &mut String) {
        for piece in &self.replacement {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Group(group) => out.push_str(found.get_group(*group).map_or("", |part| &name[part.range()])),
            }
        }
    }
}

/// Time of this thread on a processor, so that a busy machine makes no rule slow. Below [`EXACT`], which is nearly
/// always, it is the time of the clock, since that of a thread takes longer to read than most rules.
struct Stopwatch {
    begin: Instant,
    exact: Cell<Option<Duration>>,
}

/// Half of [`MEAN`]: time of the clock alone never makes rules too slow.
const EXACT: Duration = Duration::from_micros(500);

impl Stopwatch {
    fn start() -> Self {
        Self { begin: Instant::now(), exact: Cell::new(None) }
    }

    fn spent(&self) -> Duration {
        if let Some(begin) = self.exact.get() {
            return EXACT + processor_time().saturating_sub(begin);
        }
        let elapsed = self.begin.elapsed();
        if elapsed < EXACT {
            return elapsed;
        }
        self.exact.set(Some(processor_time()));
        EXACT
    }
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
}

fn compile(pattern: &str, ignores_case: bool) -> Result<Regex, BuildError> {
    let limits = Regex::config()
        .nfa_size_limit(Some(MAX_COMPILED))
        .onepass_size_limit(Some(MAX_KEPT))
        .hybrid_cache_capacity(MAX_KEPT);
    Regex::builder().configure(limits).syntax(syntax::Config::new().case_insensitive(ignores_case)).build(pattern)
}

fn reason(error: &BuildError) -> Reason {
    if error.size_limit().is_some() {
        return format!("compiled, it has more than {} KiB; make its counts smaller", MAX_COMPILED / 1024);
    }
    let text = error.syntax_error().map_or_else(|| error.to_string(), ToString::to_string);
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").trim_end_matches('.').to_owned()
}
