//! PAX extended headers: records of the form `LENGTH KEY=VALUE\n`.

/// The records of one extended header, in their order.
pub(crate) type PaxRecords = Vec<(String, Vec<u8>)>;

/// Keys of the sparse format 0.0, of which every record counts.
const REPEATABLE: [&str; 2] = ["GNU.sparse.offset", "GNU.sparse.numbytes"];

/// True when the key decides on the name or the bytes of a member. It may not come twice.
fn is_decisive(key: &str) -> bool {
    matches!(key, "path" | "linkpath" | "size" | "hdrcharset") || key.starts_with("GNU.sparse.")
}

/// Read all records of an extended header. Of two records of one key the later one counts, as in all readers; keys that
/// are no text (of extended attributes) are skipped.
pub(crate) fn parse(mut body: &[u8]) -> Result<PaxRecords, &'static str> {
    if body.is_empty() {
        return Err("it is empty");
    }
    let mut records = PaxRecords::new();
    let mut seen = std::collections::HashMap::new();
    while !body.is_empty() {
        let ((key, value), rest) = record(body)?;
        body = rest;
        let Ok(key) = std::str::from_utf8(key) else { continue };
        let earlier = if REPEATABLE.contains(&key) { None } else { seen.insert(key, records.len()) };
        match earlier {
            Some(_) if is_decisive(key) => return Err("it has two records of one key"),
            Some(at) => {
                records[at].1 = value.to_vec();
                seen.insert(key, at);
            }
            None => records.push((key.to_owned(), value.to_vec())),
        }
    }
    Ok(records)
}

/// Key and value.
type PaxRecord<'a> = (&'a [u8], &'a [u8]);

/// The first record, and what follows it.
fn record(body: &[u8]) -> Result<(PaxRecord<'_>, &[u8]), &'static str> {
    let space = body.iter().take(20).position(|byte| *byte == b' ').ok_or("a record has no length")?;
    let len = decimal(&body[..space]).ok_or("the length of a record is not a number")?;
    let len = usize::try_from(len).ok().filter(|len| (space + 1..=body.len()).contains(len));
    let (record, rest) = body.split_at(len.ok_or("a record is longer than the header")?);
    let record = record[space + 1..].strip_suffix(b"\n").ok_or("a record does not end in a newline")?;
    let equals = record.iter().position(|byte| *byte == b'=').ok_or("a record has no value")?;
    let key = &record[..equals];
    // GNU tar skips further blanks before a key, others do not.
    if key.is_empty() || key.contains(&0) || matches!(key[0], b' ' | b'\t') {
        return Err("a key is empty, begins with a blank or contains NUL");
    }
    Ok(((key, &record[equals + 1..]), rest))
}

/// A number of decimal digits only, as PAX writes sizes.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Seconds and nanoseconds of a time such as `-12.5`; digits beyond nanoseconds are cut.
pub(crate) fn time(text: &[u8]) -> Option<(i64, u32)> {
    let (negative, digits) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
    let mut halves = digits.splitn(2, |byte| *byte == b'.');
    let seconds = i64::try_from(decimal(halves.next()?)?).ok()?;
    let nanos = match halves.next() {
        None | Some(b"") => 0,
        Some(fraction) => {
            decimal(&fraction[..fraction.len().min(9)])?;
            fraction.iter().all(u8::is_ascii_digit).then_some(())?;
            let digit = |at: usize| fraction.get(at).map_or(0, |byte| u32::from(byte - b'0'));
            (0..9).fold(0, |nanos, at| nanos * 10 + digit(at))
        }
    };
    Some(match (negative, nanos) {
        (false, nanos) => (seconds, nanos),
        (true, 0) => (-seconds, 0),
        (true, nanos) => (-seconds - 1, 1_000_000_000 - nanos),
    })
}

/// Write records in the given order.
pub(crate) fn encode<'a>(records: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut body = Vec::new();
    for (key, value) in records {
        // The length counts its own digits: space, equals sign and newline are the other three bytes.
        let rest = key.len() + value.len() + 3;
        let mut len = rest + 1;
        while rest + len.to_string().len() != len {
            len = rest + len.to_string().len();
        }
        body.extend_from_slice(format!("{len} {key}=").as_bytes());
        body.extend_from_slice(value);
        body.push(b'\n');
    }
    body
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn malformed_records_are_refused() {
        let bodies: [&[u8]; 16] = [
            b"",
            b"11 path=abc",
            b"13 path=abc\n",
            b"11 path=abc\n",
            b"+13 path=abc\n",
            b"-13 path=abc\n",
            b"12  path=ab\n",
            b"0x path=abc\n",
            b" path=abc\n",
            b"7 path\n",
            b"6 =ab\n",
            b"99999999999999999999 a=b\n",
            b"0 a=b\n",
            b"1 a=b\n",
            b"12 path=abc\n\0\0",
            b"9 size=1\n9 size=2\n",
        ];

        for body in bodies {
            assert!(parse(body).is_err(), "{}", body.escape_ascii());
        }
    }

    #[test]
    fn later_records_count_and_keys_that_are_no_text_are_passed_over() {
        let records = parse(b"6 a=b\n6 c=d\n6 \xff=e\n6 a=f\n").unwrap();
        assert_eq!(records, [("a".to_owned(), b"f".to_vec()), ("c".to_owned(), b"d".to_vec())]);
    }

    #[test]
    fn times_keep_nanoseconds_on_both_sides_of_1970() {
        assert_eq!(time(b"12"), Some((12, 0)));
        assert_eq!(time(b"12.5"), Some((12, 500_000_000)));
        assert_eq!(time(b"12.0000000019"), Some((12, 1)));
        assert_eq!(time(b"-0.25"), Some((-1, 750_000_000)));
        for wrong in [b"".as_slice(), b"-", b"1e5", b"12.x", b" 1", b".5", b"99999999999999999999"] {
            assert_eq!(time(wrong), None, "{}", wrong.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn records_that_were_written_are_read_again(
            records in proptest::collection::btree_map("[a-zA-Z.]{1,40}", proptest::collection::vec(any::<u8>(), 0..1200), 1..8)
        ) {
            let body = encode(records.iter().map(|(key, value)| (key.as_str(), value.as_slice())));
            prop_assert_eq!(parse(&body).unwrap(), records.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_refused_or_read_to_their_end(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(records) = parse(&body) {
                prop_assert!(records.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() < body.len());
            }
        }
    }
}
