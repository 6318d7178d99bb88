//! Wildcards: `*`, `?` and `[...]` against whole names.
//!
//! A wildcard becomes a nondeterministic automaton whose states are the bits of a few words. All states are advanced
//! together, so that one character of a name costs a few operations on words, whatever came before it.

use std::collections::HashMap;
use std::ops::RangeInclusive;

/// Longest wildcard, in characters: a key has 1,024 bytes, a path of a disk 4,096.
pub const MAX_WILDCARD: usize = 4096;
/// Most characters of all wildcards of a list: bounds the time that one name takes (8 ms for a key of 1,024 bytes).
pub const MAX_LIST: usize = 256 * 1024;

/// Meaning of the characters of a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Keys: `*` any text, `?` any character.
    Key,
    /// Paths, as in a shell: as keys, but only `**` crosses slashes; `**/` stands for any folders, or none.
    Path,
    /// Rules to include and to exclude: as keys, and `[a-z]` and `[!a-z]` stand for one character.
    Rule,
}

/// A wildcard in its compiled form.
#[derive(Debug)]
pub struct Wildcard {
    words: usize,
    /// The state in which the whole wildcard has matched.
    last: usize,
    /// Masks of the states that a character advances. The first is for characters that the wildcard does not name.
    masks: Vec<Vec<u64>>,
    ascii: [u16; 128],
    further: HashMap<char, u16>,
    classes: Vec<(usize, Class)>,
    /// States that stay on any character, and on any but a slash.
    stays: Vec<u64>,
    stays_below: Vec<u64>,
    /// States that continue by one and by two without a character: the start of `**/`.
    optional: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Class {
    negated: bool,
    ranges: Vec<RangeInclusive<char>>,
}

impl Class {
    fn holds(&self, character: char) -> bool {
        self.ranges.iter().any(|range| range.contains(&character)) != self.negated
    }
}

#[derive(Clone, Debug)]
enum Token {
    Literal(char),
    AnyCharacter,
    NoSlash,
    Class(Class),
    AnyText,
    TextBelow,
    Folders,
}

impl Wildcard {
    /// Compiles a wildcard of at most [`MAX_WILDCARD`] characters; None for a longer one.
    pub fn new(written: &str, dialect: Dialect) -> Option<Self> {
        if written.chars().nth(MAX_WILDCARD).is_some() {
            return None;
        }
        let tokens = tokens(written, dialect);
        let states = 1 + tokens.iter().map(Token::states).sum::<usize>();
        let words = states.div_ceil(64);
        let empty = || vec![0_u64; words];
        let mut found = Self {
            words,
            last: states - 1,
            // Of other characters, and of a slash.
            masks: vec![empty(), empty()],
            ascii: [0; 128],
            further: HashMap::new(),
            classes: Vec::new(),
            stays: empty(),
            stays_below: empty(),
            optional: empty(),
        };
        found.ascii[usize::from(b'/')] = 1;
        let (mut at, mut literals) = (0, Vec::new());
        for token in tokens {
            let states = token.states();
            match token {
                Token::Literal(character) => literals.push((at, character)),
                Token::AnyCharacter => found.masks.iter_mut().for_each(|mask| set(mask, at)),
                Token::NoSlash => set(&mut found.masks[0], at),
                Token::Class(class) => found.classes.push((at, class)),
                Token::AnyText => set(&mut found.stays, at),
                Token::TextBelow => set(&mut found.stays_below, at),
                // From `at` past it, or to `at + 1`, which takes any text and is left by a slash.
                Token::Folders => {
                    set(&mut found.optional, at);
                    set(&mut found.stays, at + 1);
                    literals.push((at + 1, '/'));
                }
            }
            at += states;
        }
        for (at, character) in literals {
            let number = usize::from(found.mask_of(character));
            set(&mut found.masks[number], at);
        }
        Some(found)
    }

    /// The number of the mask of a literal character, which gets one of its own.
    fn mask_of(&mut self, character: char) -> u16 {
        let fresh = u16::try_from(self.masks.len()).expect("a wildcard has at most 4,096 characters");
        let place = match self.ascii.get_mut(character as usize) {
            Some(place) => place,
            None => self.further.entry(character).or_default(),
        };
        if *place == 0 {
            *place = fresh;
            self.masks.push(self.masks[0].clone());
            return fresh;
        }
        *place
    }

    /// True when the wildcard matches the whole name.
    pub fn matches(&self, name: &str) -> bool {
        let mut states = vec![0_u64; self.words];
        let mut next = vec![0_u64; self.words];
        set(&mut states, 0);
        self.skip(&mut states);
        for character in name.chars() {
            let place = self.ascii.get(character as usize).or_else(|| self.further.get(&character));
            let advances = &self.masks[usize::from(place.copied().unwrap_or_default())];
            let (mut carry, mut alive) = (0, 0);
            for at in 0..self.words {
                let stays = if character == '/' { self.stays[at] } else { self.stays[at] | self.stays_below[at] };
                let moved = states[at] & advances[at];
                next[at] = (moved << 1) | carry | (states[at] & stays);
                carry = moved >> 63;
                alive |= next[at];
            }
            for (at, class) in &self.classes {
                if has(&states, *at) && class.holds(character) {
                    set(&mut next, at + 1);
                    alive = 1;
                }
            }
            if alive == 0 {
                return false;
            }
            self.skip(&mut next);
            std::mem::swap(&mut states, &mut next);
        }
        has(&states, self.last)
    }

    /// Words of one step: what a character of a name costs.
    pub fn cost(&self) -> usize {
        self.words + self.classes.len()
    }

    fn skip(&self, states: &mut [u64]) {
        let (mut by_one, mut by_two) = (0, 0);
        for (at, word) in states.iter_mut().enumerate() {
            // No state that is reached so begins another `**/`: those that follow one another are one.
            let starts = *word & self.optional[at];
            *word |= (starts << 1) | by_one | (starts << 2) | by_two;
            (by_one, by_two) = (starts >> 63, starts >> 62);
        }
    }
}

impl Token {
    /// States that a token leads past.
    fn states(&self) -> usize {
        match self {
            Self::AnyText | Self::TextBelow => 0,
            Self::Folders => 2,
            _ => 1,
        }
    }
}

fn set(words: &mut [u64], at: usize) {
    words[at / 64] |= 1 << (at % 64);
}

fn has(words: &[u64], at: usize) -> bool {
    words[at / 64] & (1 << (at % 64)) != 0
}

fn tokens(written: &str, dialect: Dialect) -> Vec<Token> {
    let text: Vec<char> = written.chars().collect();
    let is_path = dialect == Dialect::Path;
    let (mut found, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let rest = &text[at..];
        let (token, length) = match rest {
            ['*', '*', '/', ..] if is_path => (Token::Folders, 3),
            ['*', '*', ..] => (Token::AnyText, 2),
            ['*', ..] => (if is_path { Token::TextBelow } else { Token::AnyText }, 1),
            ['?', ..] => (if is_path { Token::NoSlash } else { Token::AnyCharacter }, 1),
            ['[', ..] if dialect == Dialect::Rule => class(rest),
            [other, ..] => (Token::Literal(*other), 1),
            [] => break,
        };
        at += length;
        if !(matches!(token, Token::Folders) && matches!(found.last(), Some(Token::Folders))) {
            found.push(token);
        }
    }
    found
}

/// The class at the start of `text`, and its length; a bracket that nothing closes stands for itself.
fn class(text: &[char]) -> (Token, usize) {
    let begin = if text.get(1) == Some(&'!') { 2 } else { 1 };
    // A closing bracket that comes first is a member.
    let Some(end) = (begin + 1..text.len()).find(|at| text[*at] == ']') else {
        return (Token::Literal('['), 1);
    };
    let (members, mut ranges, mut at) = (&text[begin..end], Vec::new(), 0);
    while at < members.len() {
        let last = if members.get(at + 1) == Some(&'-') { members.get(at + 2) } else { None };
        ranges.push(members[at]..=*last.unwrap_or(&members[at]));
        at += if last.is_some() { 3 } else { 1 };
    }
    (Token::Class(Class { negated: begin == 2, ranges }), end + 1)
}

/// Wildcards of which the last one that matches decides, or of which there is one only.
#[derive(Debug)]
pub struct Rules(Vec<(bool, Wildcard)>);

/// A list of wildcards is too long.
#[derive(Debug, PartialEq, Eq)]
pub enum TooLong {
    /// One of them, by its number from 0.
    Wildcard(usize),
    /// All together.
    List,
}

impl Rules {
    /// Compiles wildcards, each with whether it includes.
    pub fn new(rules: &[(bool, String)], dialect: Dialect) -> Result<Self, TooLong> {
        if rules.iter().map(|(_, written)| written.chars().count()).sum::<usize>() > MAX_LIST {
            return Err(TooLong::List);
        }
        let compiled = rules.iter().enumerate().rev().map(|(number, (includes, written))| {
            Wildcard::new(written, dialect).map(|rule| (*includes, rule)).ok_or(TooLong::Wildcard(number))
        });
        Ok(Self(compiled.collect::<Result<_, _>>()?))
    }

    /// The decision of the last rule that matches a name; None when none does.
    pub fn decide(&self, name: &str) -> Option<bool> {
        self.0.iter().find(|(_, rule)| rule.matches(name)).map(|(includes, _)| *includes)
    }

    /// Steps that a name may take at most, each of about a nanosecond.
    pub fn cost(&self, name: &str) -> usize {
        name.len() * self.0.iter().map(|(_, rule)| rule.cost()).sum::<usize>()
    }
}
