//! Keys that are counted rather than stored: `run42/sample_{i:04}_R{1,2}.fastq.gz`.
//!
//! A pattern is text with counters of fixed width, `{name:0WIDTH}`, and choices, `{a,b,c}`. Its keys are numbered in
//! the order in which S3 lists them, so the number of a key, and the first key after any text, are found without a
//! table.

const MOST_PIECES: usize = 16;

/// A pattern and how many of its keys there are.
#[derive(Debug, Clone)]
pub(super) struct KeyPattern {
    pieces: Vec<Piece>,
    count: u64,
}

#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    /// `radix` numbers, in decimal with leading zeros.
    Counter {
        width: usize,
        radix: u64,
    },
    /// Sorted, and none the beginning of another.
    Choice(Vec<String>),
}

impl Piece {
    fn radix(&self) -> u64 {
        match self {
            Self::Text(_) => 1,
            Self::Counter { radix, .. } => *radix,
            Self::Choice(texts) => texts.len() as u64,
        }
    }
}

impl KeyPattern {
    /// The first `count` keys of a pattern. The first counter counts as far as needed, later ones through all their
    /// digits.
    pub(super) fn parse(text: &str, count: u64) -> Result<Self, String> {
        let wrong = |what: &str| format!("key pattern {text:?}: {what}");
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            if open > 0 {
                pieces.push(Piece::Text(rest[..open].to_owned()));
            }
            let close = rest[open..].find('}').ok_or_else(|| wrong("a { without }"))? + open;
            pieces.push(placeholder(&rest[open + 1..close]).map_err(|what| wrong(&what))?);
            rest = &rest[close + 1..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        if pieces.len() > MOST_PIECES {
            return Err(wrong("too many pieces"));
        }
        let product =
            |pieces: &[Piece]| pieces.iter().try_fold(1_u64, |product, piece| product.checked_mul(piece.radix()));
        let first = pieces.iter().position(|piece| matches!(piece, Piece::Counter { .. }));
        if let Some(first) = first
            && let Piece::Counter { width, .. } = pieces[first]
        {
            let full = pieces[first].radix();
            pieces[first] = Piece::Counter { width, radix: 1 };
            let others = product(&pieces).ok_or_else(|| wrong("too many keys"))?;
            let radix = count.div_ceil(others).max(1);
            if radix > full {
                return Err(wrong(&format!("{width} digits are too few for {count} keys")));
            }
            pieces[first] = Piece::Counter { width, radix };
        }
        if product(&pieces).is_none_or(|all| all < count) {
            return Err(wrong(&format!("it has fewer than {count} keys")));
        }
        let made = Self { pieces, count };
        let mut longest = String::new();
        made.write(count.saturating_sub(1), &mut longest);
        if longest.is_empty() || longest.len() > 1024 {
            return Err(wrong("keys must have 1 to 1,024 bytes"));
        }
        Ok(made)
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Replaces `key` by the key of that number.
    pub(super) fn write(&self, index: u64, key: &mut String) {
        key.clear();
        let mut digits = [0_u64; MOST_PIECES];
        let mut rest = index;
        for (piece, digit) in self.pieces.iter().zip(&mut digits).rev() {
            *digit = rest % piece.radix();
            rest /= piece.radix();
        }
        for (piece, digit) in self.pieces.iter().zip(digits) {
            match piece {
                Piece::Text(text) => key.push_str(text),
                Piece::Counter { width, .. } => push_padded(key, digit, *width),
                Piece::Choice(texts) => key.push_str(&texts[usize::try_from(digit).unwrap_or(0)]),
            }
        }
    }

    /// The number of a key.
    pub(super) fn index(&self, key: &str) -> Option<u64> {
        let (mut rest, mut index) = (key, 0_u64);
        for piece in &self.pieces {
            let digit = match piece {
                Piece::Text(text) => {
                    rest = rest.strip_prefix(text.as_str())?;
                    0
                }
                Piece::Counter { width, radix } => {
                    let digits = rest.get(..*width).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?;
                    rest = &rest[*width..];
                    digits.parse().ok().filter(|number| number < radix)?
                }
                Piece::Choice(texts) => {
                    let chosen = texts.iter().position(|text| rest.starts_with(text.as_str()))?;
                    rest = &rest[texts[chosen].len()..];
                    chosen as u64
                }
            };
            index = index * piece.radix() + digit;
        }
        (rest.is_empty() && index < self.count).then_some(index)
    }

    /// Number of keys before `bound`, which is also the number of the first key that is not.
    pub(super) fn before(&self, bound: &str) -> u64 {
        let (mut low, mut high) = (0, self.count);
        let mut key = String::new();
        while low < high {
            let middle = low + (high - low) / 2;
            self.write(middle, &mut key);
            if key.as_str() < bound {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

fn push_padded(key: &mut String, mut number: u64, width: usize) {
    let mut digits = [b'0'; 20];
    for slot in digits[..width].iter_mut().rev() {
        *slot = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
    key.extend(digits[..width].iter().map(|digit| char::from(*digit)));
}

fn placeholder(text: &str) -> Result<Piece, String> {
    if let Some((name, width)) = text.split_once(":0") {
        let width = width.parse::<usize>().ok().filter(|width| (1..=18).contains(width));
        let width = width.filter(|_| name.chars().all(char::is_alphanumeric));
        let width = width.ok_or_else(|| format!("{{{text}}} is no counter such as {{i:06}}"))?;
        return Ok(Piece::Counter { width, radix: 10_u64.pow(u32::try_from(width).unwrap_or(18)) });
    }
    let mut texts: Vec<String> = text.split(',').map(str::to_owned).collect();
    texts.sort_unstable();
    if texts.len() < 2 {
        return Err(format!("{{{text}}} is neither a counter such as {{i:06}} nor a choice such as {{1,2}}"));
    }
    if texts.windows(2).any(|pair| pair[1].starts_with(&pair[0])) {
        return Err(format!("{{{text}}}: one choice is the beginning of another"));
    }
    Ok(Piece::Choice(texts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(pattern: &KeyPattern) -> Vec<String> {
        let mut key = String::new();
        (0..pattern.count())
            .map(|index| {
                pattern.write(index, &mut key);
                key.clone()
            })
            .collect()
    }

    #[test]
    fn keys_come_in_the_order_of_listings_and_are_found_again() {
        for (text, count) in [
            ("run42/sample_{i:04}_R{1,2}.fastq.gz", 26),
            ("{a,b}/{i:03}", 11),
            ("d{i:02}/f{j:02}", 321),
            ("only", 1),
            ("ü{i:02}/é", 99),
        ] {
            let pattern = KeyPattern::parse(text, count).unwrap();
            let all = keys(&pattern);

            assert!(all.is_sorted_by(|a, b| a < b), "{text}");
            assert_eq!(all.len() as u64, count);
            for (index, key) in (0..).zip(&all) {
                assert_eq!(pattern.index(key), Some(index));
                assert_eq!(pattern.before(key), index);
                assert_eq!(pattern.before(&format!("{key}\0")), index + 1);
                assert_eq!(pattern.index(&format!("{key}x")), None);
            }
        }
    }

    #[test]
    fn impossible_patterns_are_named() {
        for (text, count, told) in [
            ("{i:02}", 101, "too few"),
            ("k", 2, "fewer"),
            ("{i:02", 1, "without }"),
            ("{i}", 1, "neither"),
            ("{a,ab}{i:02}", 1, "beginning"),
            ("", 1, "1,024"),
        ] {
            let problem = KeyPattern::parse(text, count).unwrap_err();
            assert!(problem.contains(told), "{problem}");
        }
    }
}
