//! Regular expressions as Python writes them, put into the syntax of a linear engine.
//!
//! Constructs that a linear engine does not support are refused: back-references, lookaround, atomic groups and
//! possessive repetitions. Everything else means what it means in Python, except `$`: it matches only at the end of the
//! name, not before a final line break.

use std::fmt::Write as _;

/// Deepest nesting of groups.
const MAX_DEPTH: usize = 50;
/// `\w` of Python: letters, all numbers, `_`; without the marks and joiners of Unicode's own class.
const WORD: &str = r"\p{L}\p{N}_";
const SPACE: &str = r"\s\x1c-\x1f";

/// Reason why a pattern is not taken, as the end of a sentence.
pub type Reason = String;

/// A pattern in the syntax of the engine.
#[derive(Debug)]
pub(crate) struct Translation {
    pub(crate) pattern: String,
    pub(crate) groups: usize,
}

/// Puts a pattern of Python into the syntax of the engine.
pub(crate) fn translate(pattern: &str) -> Result<Translation, Reason> {
    let mut translator = Translator {
        text: pattern.chars().collect(),
        at: 0,
        out: String::with_capacity(2 * pattern.len()),
        groups: 0,
        names: Vec::new(),
        verbose: vec![false],
        repeats: Repeats::Nothing,
    };
    translator.run()?;
    Ok(Translation { pattern: translator.out, groups: translator.groups })
}

/// Target of a repetition at this place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeats {
    Nothing,
    Item,
    Repetition,
}

struct Translator {
    text: Vec<char>,
    at: usize,
    out: String,
    groups: usize,
    names: Vec<String>,
    /// For each open group, true when spaces and comments are left out.
    verbose: Vec<bool>,
    repeats: Repeats,
}

impl Translator {
    fn run(&mut self) -> Result<(), Reason> {
        while let Some(character) = self.take() {
            let is_verbose = self.verbose.last() == Some(&true);
            match character {
                ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c' if is_verbose => {}
                '#' if is_verbose => while self.take().is_some_and(|other| other != '\n') {},
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                ')' => self.close()?,
                '*' | '+' | '?' => self.repetition(&character.to_string())?,
                '{' => match self.counted() {
                    Some(counts) => self.repetition(&counts)?,
                    None => self.literal('{'),
                },
                '|' => {
                    self.out.push('|');
                    self.repeats = Repeats::Nothing;
                }
                '.' => self.item("."),
                '^' | '$' => {
                    self.out.push(character);
                    self.repeats = Repeats::Nothing;
                }
                other => self.literal(other),
            }
        }
        if self.verbose.len() > 1 { Err("a parenthesis is not closed".into()) } else { Ok(()) }
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self) -> Option<char> {
        let found = self.peek();
        self.at += usize::from(found.is_some());
        found
    }

    fn take_if(&mut self, text: &str) -> bool {
        let length = text.chars().count();
        let is_there = self.text[self.at..].iter().take(length).copied().eq(text.chars());
        self.at += if is_there { length } else { 0 };
        is_there
    }

    fn item(&mut self, text: &str) {
        self.out.push_str(text);
        self.repeats = Repeats::Item;
    }

    fn literal(&mut self, character: char) {
        self.item(&literal(character));
    }

    fn repetition(&mut self, written: &str) -> Result<(), Reason> {
        match self.repeats {
            Repeats::Nothing => return Err(format!("'{written}' repeats nothing")),
            Repeats::Repetition => return Err(format!("'{written}' repeats a repetition; put that into (?:...)")),
            Repeats::Item => self.repeats = Repeats::Repetition,
        }
        self.out.push_str(written);
        if self.take_if("?") {
            self.out.push('?');
        } else if self.take_if("+") {
            return Err(format!("'{written}+', which gives nothing back, is not supported; write '{written}'"));
        }
        Ok(())
    }

    /// `m}`, `m,}`, `,n}` or `m,n}` after a brace, as a repetition; None when the brace stands for itself.
    fn counted(&mut self) -> Option<String> {
        let rest = &self.text[self.at..];
        let end = rest.iter().position(|character| *character == '}')?;
        let inside: String = rest[..end].iter().collect();
        let (least, most) = inside.split_once(',').unwrap_or((&inside, "-"));
        let is_count = |text: &str| text.chars().all(|character| character.is_ascii_digit());
        if !is_count(least) || !(most == "-" || is_count(most)) || inside.is_empty() {
            return None;
        }
        self.at += end + 1;
        let least = if least.is_empty() { "0" } else { least };
        Some(if most == "-" { format!("{{{least}}}") } else { format!("{{{least},{most}}}") })
    }

    fn escape(&mut self) -> Result<(), Reason> {
        let Some(character) = self.take() else { return Err("it ends with a backslash".into()) };
        match character {
            'w' => self.item(&format!("[{WORD}]")),
            'W' => self.item(&format!("[^{WORD}]")),
            's' => self.item(&format!("[{SPACE}]")),
            'S' => self.item(&format!("[^{SPACE}]")),
            'd' | 'D' => self.item(&format!("\\{character}")),
            'A' | 'b' | 'B' | 'z' | 'Z' => {
                let text = if character == 'Z' { "\\z".to_owned() } else { format!("\\{character}") };
                self.out.push_str(&text);
                self.repeats = Repeats::Nothing;
            }
            '1'..='9' if !self.is_octal(character) => {
                return Err(format!("'\\{character}', what a group has matched, is not supported"));
            }
            other => {
                let found = self.character(other)?;
                self.literal(found);
            }
        }
        Ok(())
    }

    /// True for three octal digits, which are a character.
    fn is_octal(&self, first: char) -> bool {
        let digit = |at: usize| self.text.get(at).is_some_and(|found| ('0'..='7').contains(found));
        ('0'..='7').contains(&first) && digit(self.at) && digit(self.at + 1)
    }

    /// The character that an escape stands for, inside a class and outside.
    fn character(&mut self, escaped: char) -> Result<char, Reason> {
        let digits = match escaped {
            'a' => return Ok('\x07'),
            'f' => return Ok('\x0c'),
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            't' => return Ok('\t'),
            'v' => return Ok('\x0b'),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            '0'..='7' => return self.octal(escaped),
            'N' => return Err("'\\N', a character by its name, is not supported; write the character".into()),
            other if other.is_ascii_alphanumeric() => return Err(format!("'\\{other}' has no meaning")),
            other => return Ok(other),
        };
        let written: String = self.text[self.at..].iter().take(digits).collect();
        self.at += written.chars().count();
        let is_hex = written.chars().count() == digits && written.chars().all(|found| found.is_ascii_hexdigit());
        let value = is_hex.then(|| u32::from_str_radix(&written, 16).ok()).flatten();
        let faulty = || format!("'\\{escaped}{written}' is not a character");
        value.and_then(char::from_u32).ok_or_else(faulty)
    }

    fn octal(&mut self, first: char) -> Result<char, Reason> {
        let mut value = first.to_digit(8).unwrap_or_default();
        for _ in 0..2 {
            let Some(digit) = self.peek().and_then(|found| found.to_digit(8)) else { break };
            value = 8 * value + digit;
            self.at += 1;
        }
        let found = u8::try_from(value).map_err(|_| format!("'\\{value:o}' is not a character"))?;
        Ok(char::from(found))
    }

    fn class(&mut self) -> Result<(), Reason> {
        let mut out = String::from(if self.take_if("^") { "[^" } else { "[" });
        let begin = self.at;
        loop {
            let first = self.member(begin)?;
            let Some(first) = first else { break };
            // A dash before the end of the class stands for itself.
            let is_range = self.peek() == Some('-') && self.text.get(self.at + 1) != Some(&']');
            if !is_range {
                out.push_str(&first.text());
                continue;
            }
            self.at += 1;
            let last = self.member(usize::MAX)?.ok_or("a bracket is not closed")?;
            match (first, last) {
                (Member::One(low), Member::One(high)) if low <= high => {
                    let _ = write!(out, "{}-{}", literal(low), literal(high));
                }
                (Member::One(low), Member::One(high)) => return Err(format!("the range '{low}-{high}' is empty")),
                _ => return Err("a range has a class at one of its ends".into()),
            }
        }
        out.push(']');
        self.item(&out);
        Ok(())
    }

    /// The next member of a class that begins at `begin`; None at its end.
    fn member(&mut self, begin: usize) -> Result<Option<Member>, Reason> {
        let at = self.at;
        Ok(Some(match self.take().ok_or("a bracket is not closed")? {
            ']' if at != begin => return Ok(None),
            '\\' => match self.take().ok_or("a bracket is not closed")? {
                'w' => Member::Many(WORD.into()),
                'W' => Member::Many(format!("[^{WORD}]")),
                's' => Member::Many(SPACE.into()),
                'S' => Member::Many(format!("[^{SPACE}]")),
                class @ ('d' | 'D') => Member::Many(format!("\\{class}")),
                'b' => Member::One('\x08'),
                other => Member::One(self.character(other)?),
            },
            other => Member::One(other),
        }))
    }

    fn group(&mut self) -> Result<(), Reason> {
        if self.verbose.len() > MAX_DEPTH {
            return Err(format!("parentheses are nested more than {MAX_DEPTH} times"));
        }
        let is_verbose = self.verbose.last() == Some(&true);
        if !self.take_if("?") {
            self.groups += 1;
            self.open("(", is_verbose);
            return Ok(());
        }
        if self.take_if("P=") || self.take_if("(") {
            return Err("what a group has matched is not supported in a condition".into());
        }
        if ["=", "!", "<=", "<!"].iter().any(|sign| self.take_if(sign)) {
            return Err("looking ahead and behind, (?=...) and (?<=...), is not supported".into());
        }
        if self.take_if(">") {
            return Err("(?>...), which gives nothing back, is not supported; write (?:...)".into());
        }
        if self.take_if("#") {
            while self.take().ok_or("a comment is not closed")? != ')' {}
            return Ok(());
        }
        if self.take_if("P<") {
            return self.named(is_verbose);
        }
        self.flags(is_verbose)
    }

    fn open(&mut self, sign: &str, is_verbose: bool) {
        self.out.push_str(sign);
        self.verbose.push(is_verbose);
        self.repeats = Repeats::Nothing;
    }

    fn named(&mut self, is_verbose: bool) -> Result<(), Reason> {
        let mut name = String::new();
        loop {
            match self.take() {
                Some('>') => break,
                Some(other) => name.push(other),
                None => return Err("the name of a group is not closed".into()),
            }
        }
        let is_name = name.starts_with(|first: char| first.is_alphabetic() || first == '_')
            && name.chars().all(|other| other.is_alphanumeric() || other == '_');
        if !is_name || self.names.contains(&name) {
            return Err(format!("'{name}' cannot be the name of a group, or is one already"));
        }
        self.names.push(name);
        self.groups += 1;
        self.open("(", is_verbose);
        Ok(())
    }

    /// `(?flags)` at the start, or `(?flags-flags:...)`.
    fn flags(&mut self, mut is_verbose: bool) -> Result<(), Reason> {
        let is_first = self.at == 2;
        let (mut set, mut unset, mut is_unset) = (String::new(), String::new(), false);
        loop {
            match self.take() {
                Some(flag @ ('i' | 'm' | 's')) => (if is_unset { &mut unset } else { &mut set }).push(flag),
                Some('x') => is_verbose = !is_unset,
                Some('u') if !is_unset => {}
                Some('-') if !is_unset => is_unset = true,
                Some(':') => break,
                Some(')') if is_first && !is_unset => {
                    if let Some(all) = self.verbose.first_mut() {
                        *all = is_verbose;
                    }
                    if !set.is_empty() {
                        let _ = write!(self.out, "(?{set})");
                    }
                    return Ok(());
                }
                Some(')') => return Err("flags for the whole pattern, as (?i), stand at its start".into()),
                Some(other) => return Err(format!("'(?' with '{other}' is not supported")),
                None => return Err("a parenthesis is not closed".into()),
            }
        }
        let unset = if unset.is_empty() { unset } else { format!("-{unset}") };
        self.open(&format!("(?{set}{unset}:"), is_verbose);
        Ok(())
    }

    fn close(&mut self) -> Result<(), Reason> {
        if self.verbose.len() == 1 {
            return Err("a parenthesis is closed that was not opened".into());
        }
        self.verbose.pop();
        self.item(")");
        Ok(())
    }
}

enum Member {
    One(char),
    Many(String),
}

impl Member {
    fn text(&self) -> String {
        match self {
            Self::One(character) => literal(*character),
            Self::Many(text) => text.clone(),
        }
    }
}

/// A character that stands for itself, whatever the engine takes it for.
fn literal(character: char) -> String {
    if character.is_alphanumeric() { character.to_string() } else { format!("\\x{{{:x}}}", u32::from(character)) }
}
