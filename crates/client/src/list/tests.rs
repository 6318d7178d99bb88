//! Tests of listings.

use super::between;

#[test]
fn a_middle_lies_between() {
    for (low, high) in
        [("a", None), ("a/0001", Some("a/9999")), ("a/x", Some("a/y")), ("", Some("z")), ("run/s1", Some("run/s10"))]
    {
        if let Some((_, middle)) = between(low, high, "") {
            assert!(
                middle.as_str() > low && high.is_none_or(|high| middle.as_str() < high),
                "{low:?} {middle:?} {high:?}"
            );
        }
    }
    assert!(between("a", Some("a"), "").is_none());
}
