//! Patterns against names: what they match, what is refused, and how long they take.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use seqferry_patterns::rename::{MAX_NAME, Piece, RuleFault, Rules, WrittenRule};
use seqferry_patterns::wildcard::{self, Dialect, MAX_LIST, MAX_WILDCARD, Wildcard};

fn rule(pattern: &str, replacement: &str, is_global: bool) -> WrittenRule {
    WrittenRule {
        pattern: pattern.to_owned(),
        replacement: vec![Piece::Text(replacement.to_owned())],
        ignores_case: false,
        is_global,
    }
}

#[test]
fn a_list_of_rules_has_a_bounded_size() {
    let big = vec![rule(r"(\w{20}|x)y", "", false); 100];
    assert_eq!(Rules::new(big).err(), Some(RuleFault::List));
}

fn renamed(pattern: &str, name: &str) -> String {
    let rule = WrittenRule {
        replacement: vec![Piece::Text("<".into()), Piece::Group(0), Piece::Text(">".into())],
        ..rule(pattern, "", true)
    };
    Rules::new(vec![rule]).expect(pattern).renamed(name).expect(name)
}

fn refused(pattern: &str) -> String {
    match Rules::new(vec![rule(pattern, "x", false)]) {
        Err(RuleFault::Pattern(0, reason)) => reason,
        other => panic!("{pattern}: {other:?}"),
    }
}

#[test]
fn patterns_match_as_in_python() {
    // Each was looked up with `re.sub(pattern, r"<\g<0>>", name)` of Python 3.11.
    for (pattern, name, expected) in [
        ("x*", "abxd", "<>a<>b<x><>d<>"),
        ("a*", "baac", "<>b<aa><>c<>"),
        (r"\w+", "e\u{301}_²½٣-a", "<e>\u{301}<_²½٣>-<a>"),
        (r"\d+", "٣4a²", "<٣4>a²"),
        (r"\s", "a\u{1c}b\u{a0}c", "a<\u{1c}>b<\u{a0}>c"),
        (r"[\W]", "a-b", "a<->b"),
        (r"[^\W_]+", "a_b", "<a>_<b>"),
        (r"a{,2}b", "aaab", "a<aab>"),
        (r"a{b}{", "a{b}{", "<a{b}{>"),
        (r"[]a]+", "]a[", "<]a>["),
        (r"[[]|[&&a]|[a~~b]", "[&~b", "<[><&><~><b>"),
        (r"[a-]+", "-ab", "<-a>b"),
        (r"\<a\>", "<a>a", "<<a>>a"),
        (r"[\b]", "\u{8}b", "<\u{8}>b"),
        (r"\x41\u0042\U00000043\104\0", "ABCD\0", "<ABCD\0>"),
        (r"(?i)straße|ﬀ", "STRAßE", "<STRAßE>"),
        (r"(?x) a  b # c", "ab", "<ab>"),
        (r"(?x: a )b [ ]", "ab  ", "<ab  >"),
        (r"(?P<one>a)(?#what)+", "aab", "<aa>b"),
        (r"(?s:.)(?-i:b)", "\nb", "<\nb>"),
        (r"a.b", "a\nb", "a\nb"),
        (r"(?m)^a$", "a\na", "<a>\n<a>"),
        (r"\Aa|a\Z", "aaa", "<a>a<a>"),
        ("a|ab", "ab", "<a>b"),
        ("(a+)+b", "aaab", "<aaab>"),
        (r"\.\-\/\ ä", ".-/ ä", "<.-/ ä>"),
    ] {
        assert_eq!(renamed(pattern, name), expected, "{pattern}");
    }
}

#[test]
fn what_no_linear_engine_can_do_is_refused_with_words() {
    for (pattern, named) in [
        (r"(a)\1", "what a group has matched"),
        (r"(?P<x>a)(?P=x)", "what a group has matched"),
        (r"(a)?(?(1)b|c)", "what a group has matched"),
        ("a(?=b)", "looking ahead and behind"),
        ("a(?!b)", "looking ahead and behind"),
        ("(?<=a)b", "looking ahead and behind"),
        ("(?<!a)b", "looking ahead and behind"),
        ("(?>a+)b", "gives nothing back"),
        ("a++b", "gives nothing back"),
        ("a**", "repeats a repetition"),
        ("*a", "repeats nothing"),
        ("(a", "not closed"),
        ("a)", "not opened"),
        ("[a", "not closed"),
        ("[b-a]", "is empty"),
        (r"\q", "has no meaning"),
        (r"\ud800", "not a character"),
        (r"\x4", "not a character"),
        (r"\N{DASH}", "by its name"),
        ("a(?i)", "at its start"),
        ("(?a)a", "'a' is not supported"),
        ("(?P<1>a)", "name of a group"),
        ("a\\", "ends with a backslash"),
        ("a{99999999999}", "decimal"),
        ("a{2,1}", "repetition"),
        ("(a{1000}){1000}", "compiled, it has more than 1024 KiB"),
        ("((((a{99}){99}){99}){99}){99}", "compiled, it has more than 1024 KiB"),
        ("(a|b|c{1,1000}){1,1000}", "compiled, it has more than 1024 KiB"),
        (r"\w{1000}", "compiled, it has more than 1024 KiB"),
        (&"(".repeat(400), "nested"),
    ] {
        let begin = Instant::now();
        let reason = refused(pattern);
        assert!(reason.contains(named), "{pattern}: {reason}");
        assert!(begin.elapsed() < Duration::from_secs(2), "{pattern} took {:?}", begin.elapsed());
    }
}

#[test]
fn a_rule_makes_no_name_of_any_length() {
    let grow = vec![rule("a", &"a".repeat(900), true); 100];
    assert_eq!(Rules::new(grow).expect("rules").renamed("aaaa"), Err(RuleFault::LongName));
    assert_eq!(Rules::new(vec![]).expect("rules").renamed(&"a".repeat(MAX_NAME + 1)), Err(RuleFault::LongName));
}

#[test]
fn a_replacement_names_groups_that_are_there() {
    let rule = WrittenRule { replacement: vec![Piece::Group(2)], ..rule("(a)", "", false) };
    assert_eq!(Rules::new(vec![rule]).err(), Some(RuleFault::Group(0, 2, 1)));
}

#[test]
fn rules_that_take_quadratic_time_are_given_up() {
    // Each match is looked for up to the end of the name, by an automaton that is too big to be kept.
    let pattern = format!("(?:[ab]*a[ab]{{{}}}c)|a|b", 400);
    let rules = Rules::new(vec![rule(&pattern, "a", true); 100]).expect("rules");
    let name: String = (0..MAX_NAME).map(|at| if (at * at / 7) % 3 == 0 { 'a' } else { 'b' }).collect();
    let begin = Instant::now();
    let given_up = (0..1000).find_map(|_| rules.renamed(&name).err());
    assert!(matches!(given_up, Some(RuleFault::Slow(..))), "{given_up:?}");
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn wildcards_match_whole_names() {
    for (written, dialect, name, expected) in [
        ("*.txt", Dialect::Rule, "a/b.txt", true),
        ("*.txt", Dialect::Rule, "a/b.txt.gz", false),
        ("x[[]1]", Dialect::Rule, "x[1]", true),
        ("x[!a-c]", Dialect::Rule, "xd", true),
        ("x[!a-c]", Dialect::Rule, "xb", false),
        ("x[^a]", Dialect::Rule, "x^", true),
        ("x[]-]", Dialect::Rule, "x]", true),
        ("x[z-a]", Dialect::Rule, "xb", false),
        ("x[!z-a]", Dialect::Rule, "xb", true),
        ("x[a", Dialect::Rule, "x[a", true),
        ("x[a]", Dialect::Key, "x[a]", true),
        ("?", Dialect::Key, "ä", true),
        ("?", Dialect::Key, "\n", true),
        ("a/**/b", Dialect::Path, "a/b", true),
        ("a/**/b", Dialect::Path, "a/x/y/b", true),
        ("a/**/b", Dialect::Path, "a/xb", false),
        ("**/**/b", Dialect::Path, "b", true),
        ("a*b", Dialect::Path, "a/b", false),
        ("a**b", Dialect::Path, "a/b", true),
        ("a?b", Dialect::Path, "a/b", false),
        ("", Dialect::Key, "", true),
        ("", Dialect::Key, "a", false),
        ("*", Dialect::Key, "", true),
    ] {
        let compiled = Wildcard::new(written, dialect).expect(written);
        assert_eq!(compiled.matches(name), expected, "{written} against {name}");
    }
}

#[test]
fn long_wildcards_and_lists_are_refused() {
    assert!(Wildcard::new(&"a".repeat(MAX_WILDCARD + 1), Dialect::Key).is_none());
    let list = |count: usize, text: &str| wildcard::Rules::new(&vec![(true, text.to_owned()); count], Dialect::Rule);
    assert_eq!(list(2, &"a".repeat(MAX_WILDCARD + 1)).err(), Some(wildcard::TooLong::Wildcard(1)));
    assert_eq!(list(1 + MAX_LIST / 1000, &"a".repeat(1000)).err(), Some(wildcard::TooLong::List));
}

/// The wildcard as a regular expression, by the rules of `fnmatch` and of shells.
fn as_expression(written: &str, dialect: Dialect) -> String {
    let (text, one) = if dialect == Dialect::Path { ("[^/]*", "[^/]") } else { (".*", ".") };
    let (mut out, mut rest) = (String::from(r"(?s)\A"), written);
    while let Some(first) = rest.chars().next() {
        let (piece, taken) = match first {
            '*' if rest.starts_with("**/") && dialect == Dialect::Path => ("(?:.*/)?".into(), 3),
            '*' if rest.starts_with("**") => (".*".into(), 2),
            '*' => (text.into(), 1),
            '?' => (one.into(), 1),
            other => (format!("\\x{{{:x}}}", u32::from(other)), other.len_utf8()),
        };
        out += &piece;
        rest = &rest[taken..];
    }
    out + r"\z"
}

proptest! {
    #[test]
    fn wildcards_are_the_regular_expressions_that_they_stand_for(
        written in "[ab/*?é]{0,12}|([ab*/]{0,3}[*]{1,3}/?){30,40}", name in "[ab/é\n]{0,40}", number in 0..2_u8,
    ) {
        let dialect = if number == 0 { Dialect::Key } else { Dialect::Path };
        let expected = regex_automata::meta::Regex::new(&as_expression(&written, dialect)).expect("a regular expression");
        let wildcard = Wildcard::new(&written, dialect).expect("a wildcard");
        prop_assert_eq!(wildcard.matches(&name), expected.is_match(name.as_str()));
    }

    #[test]
    fn the_time_of_a_pattern_is_linear_in_the_name(pattern in "(([ab.]|[(]a[|]b[)]|[(]a[*][)])[*+?]?){1,12}b?", is_global: bool) {
        let Ok(rules) = Rules::new(vec![rule(&pattern, "c", is_global)]) else { return Ok(()) };
        for name in ["a".repeat(MAX_NAME), "ab".repeat(MAX_NAME / 2)] {
            let begin = Instant::now();
            let _ = rules.renamed(&name);
            prop_assert!(begin.elapsed() < Duration::from_secs(2), "{} took {:?}", pattern, begin.elapsed());
        }
    }

    #[test]
    fn the_time_of_a_wildcard_is_linear_in_the_name(written in "([ab*?]|[*]a){1,2000}b") {
        let Some(wildcard) = Wildcard::new(&written, Dialect::Rule) else { return Ok(()) };
        let begin = Instant::now();
        wildcard.matches(&"a".repeat(MAX_NAME));
        prop_assert!(begin.elapsed() < Duration::from_millis(500), "{} took {:?}", written, begin.elapsed());
    }
}
