//! Records of the table of names in its file.
//!
//! | record | bytes |
//! |---|---|
//! | a name | number, number of the directory, length, name |
//! | an assigned name | the same, with [`ASSIGNED`] in the length; then facts, and a hash of all before |
//! | a number that is released | number, zeros |

use super::{AssignedFacts, NamedFile, SALTS, hash, number};

/// Bytes of a record before its name: number, number of the directory, length.
pub(super) const HEAD: usize = 18;
/// Bit of the length: facts follow the name.
const ASSIGNED: u16 = 0x8000;
/// Bytes of facts, and of their hash.
const FACTS: usize = 4 + 8 + 3 * 4 + 3 * 8 + 1;
const HASH: usize = 8;

/// Bytes of the longest record.
pub(super) const LONGEST: usize = HEAD + ASSIGNED as usize + FACTS + HASH;

/// A record of the table.
#[derive(Debug)]
pub(super) enum TableRecord {
    Place(u64, NamedFile),
    Released(u64),
}

impl TableRecord {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Place(number, place) => match &place.assigned {
                Some(facts) => encode_assigned(*number, place, facts),
                None => head(*number, place.parent, &place.name, 0),
            },
            Self::Released(number) => head(*number, 0, "", 0),
        }
    }
}

fn head(number: u64, parent: u64, name: &str, flag: u16) -> Vec<u8> {
    // Names are parts of keys, which have at most 1,024 bytes.
    let length = u16::try_from(name.len()).unwrap_or(ASSIGNED - 1) | flag;
    [&number.to_be_bytes()[..], &parent.to_be_bytes(), &length.to_be_bytes(), name.as_bytes()].concat()
}

fn encode_assigned(number: u64, place: &NamedFile, facts: &AssignedFacts) -> Vec<u8> {
    let mut bytes = head(number, place.parent, &place.name, ASSIGNED);
    bytes.extend(facts.generation.to_be_bytes());
    bytes.extend(facts.version.to_be_bytes());
    for value in [facts.mode, facts.uid, facts.gid] {
        bytes.extend(value.to_be_bytes());
    }
    for time in [facts.accessed, facts.modified, facts.changed] {
        bytes.extend(time.to_be_bytes());
    }
    bytes.push(facts.stated);
    let sum = hash(&[&bytes]);
    bytes.extend(sum.to_be_bytes());
    bytes
}

/// The first record of these bytes, and what follows. A number is that of its name, or a hash follows: this is checked.
pub(super) fn record(bytes: &[u8]) -> Option<(TableRecord, &[u8])> {
    let head: &[u8; HEAD] = bytes.first_chunk()?;
    let (found, parent) = (long(&head[..8]), long(&head[8..16]));
    let length = u16::from_be_bytes([head[16], head[17]]);
    let (is_assigned, length) = (length & ASSIGNED != 0, usize::from(length & !ASSIGNED));
    let name = std::str::from_utf8(bytes.get(HEAD..HEAD + length)?).ok()?;
    let rest = &bytes[HEAD + length..];
    if is_assigned {
        let (facts, rest) = rest.split_at_checked(FACTS)?;
        let (sum, rest) = rest.split_at_checked(HASH)?;
        if hash(&[&bytes[..HEAD + length + FACTS]]) != long(sum) {
            return None;
        }
        let place = NamedFile { parent, name: name.into(), assigned: Some(Box::new(facts_of(facts))) };
        return Some((TableRecord::Place(found, place), rest));
    }
    if parent == 0 && name.is_empty() {
        return Some((TableRecord::Released(found), rest));
    }
    if !(0..SALTS).any(|salt| number(parent, name, salt) == found) {
        return None;
    }
    Some((TableRecord::Place(found, NamedFile { parent, name: name.into(), assigned: None }), rest))
}

/// A number from its bytes, of which it has at most eight.
pub(super) fn long(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

fn facts_of(bytes: &[u8]) -> AssignedFacts {
    let at = |from: usize, size: usize| long(&bytes[from..from + size]);
    let word = |from: usize| u32::try_from(at(from, 4)).unwrap_or_default();
    AssignedFacts {
        generation: word(0),
        version: at(4, 8),
        mode: word(12),
        uid: word(16),
        gid: word(20),
        accessed: at(24, 8),
        modified: at(32, 8),
        changed: at(40, 8),
        stated: bytes[48],
    }
}
