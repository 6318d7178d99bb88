//! Numeric header fields: octal text, and base-256 as GNU tar writes it for large and negative values.

/// Error: the field holds no number that every reader understands alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NumberError;

/// The value of a field; None for a field of spaces and NULs only.
///
/// Accepted: leading spaces, octal digits, then only spaces and NULs up to the end of the field; or base-256 with the
/// first byte 0x80 (positive) or 0xff (negative). Readers disagree about everything else.
pub(crate) fn parse(field: &[u8]) -> Result<Option<i64>, NumberError> {
    match field.first() {
        Some(0x80) => base256(&field[1..], 0).map(Some),
        Some(0xff) => base256(&field[1..], -1).map(Some),
        _ => octal(field),
    }
}

fn octal(field: &[u8]) -> Result<Option<i64>, NumberError> {
    let blank = |byte: &u8| matches!(byte, b' ' | 0);
    if field.iter().all(blank) {
        return Ok(None);
    }
    let start = field.iter().take_while(|byte| **byte == b' ').count();
    let digits = field[start..].iter().take_while(|byte| matches!(byte, b'0'..=b'7')).count();
    let (number, rest) = field[start..].split_at(digits);
    if number.is_empty() || !rest.iter().all(blank) {
        return Err(NumberError);
    }
    let value = number.iter().try_fold(0i64, |value, digit| value.checked_mul(8)?.checked_add(i64::from(digit - b'0')));
    value.map(Some).ok_or(NumberError)
}

fn base256(bytes: &[u8], sign: i64) -> Result<i64, NumberError> {
    let wide = bytes
        .iter()
        .try_fold(i128::from(sign), |value, byte| value.checked_mul(256).map(|shifted| shifted | i128::from(*byte)));
    wide.and_then(|value| i64::try_from(value).ok()).ok_or(NumberError)
}

/// Write `value` as zero-padded octal with a closing NUL, or as base-256 where octal is too short.
pub(crate) fn write(field: &mut [u8], value: u64) {
    let digits = field.len() - 1;
    let bits = 3 * u32::try_from(digits).unwrap_or(u32::MAX);
    if bits >= 64 || value >> bits == 0 {
        field[digits] = 0;
        for (at, byte) in field[..digits].iter_mut().rev().enumerate() {
            let shifted = value.checked_shr(3 * u32::try_from(at).unwrap_or(u32::MAX)).unwrap_or(0);
            *byte = b'0' + u8::try_from(shifted & 7).unwrap_or(0);
        }
        return;
    }
    field.fill(0);
    field[0] = 0x80;
    let bytes = value.to_be_bytes();
    let width = bytes.len().min(digits);
    let end = field.len();
    field[end - width..].copy_from_slice(&bytes[bytes.len() - width..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_unambiguous_octal_is_a_number() {
        type Row<'a> = (&'a [u8], Result<Option<i64>, NumberError>);
        let table: [Row<'_>; 13] = [
            (b"0000644\0", Ok(Some(0o644))),
            (b"   644 \0", Ok(Some(0o644))),
            (b"777777777777", Ok(Some(0o777_777_777_777))),
            (b"\0\0\0\0", Ok(None)),
            (b"    ", Ok(None)),
            (b"12 34\0", Err(NumberError)),
            (b"12\x0034", Err(NumberError)),
            (b"\x0012\0", Err(NumberError)),
            (b"0000008\0", Err(NumberError)),
            (b"-000001\0", Err(NumberError)),
            (b"0x00001\0", Err(NumberError)),
            (b"+00000A\0", Err(NumberError)),
            (b"\x81\0\0\0\0\0\0\0\0\0\0\0", Err(NumberError)),
        ];

        for (field, expected) in table {
            assert_eq!(parse(field), expected, "{field:?}");
        }
    }

    #[test]
    fn base_256_reaches_the_whole_range_and_not_beyond() {
        assert_eq!(parse(b"\x80\0\0\0\0\0\0\x02\0\0\0\0"), Ok(Some(1 << 33)));
        assert_eq!(parse(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe"), Ok(Some(-2)));
        assert_eq!(parse(b"\x80\0\0\0\x80\0\0\0\0\0\0\0"), Err(NumberError));
        assert_eq!(parse(b"\x80\x01\0\0\0\0\0\0\0\0\0\0"), Err(NumberError));
        assert_eq!(parse(&[0xff; 40]), Ok(Some(-1)));
        assert_eq!(parse(&[[0x80].as_slice(), &[0xff; 40]].concat()), Err(NumberError));
    }

    proptest! {
        #[test]
        fn a_number_that_was_written_is_read_again(value in 0..=i64::MAX as u64) {
            let mut field = [0; 12];
            write(&mut field, value);
            prop_assert_eq!(parse(&field), Ok(Some(i64::try_from(value).unwrap())));
        }
    }
}
