//! Encodings of names and values in requests and replies.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode_str, utf8_percent_encode};

use crate::types::PinnedObject;

/// Characters that are encoded in a query: all but the unreserved ones of RFC 3986.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Characters that are encoded in `bucket/key`, whose slashes stay.
const PATH: &AsciiSet = &QUERY.remove(b'/');

/// The value of `x-amz-copy-source`. Copy tools often fail here, on `+`, `?`, `%` and `#` in keys.
pub(super) fn copy_source(source: &PinnedObject) -> String {
    let mut header = format!("{}/{}", source.bucket, encode_path(&source.key));
    if let Some(version) = &source.version_id {
        header.push_str("?versionId=");
        header.push_str(version);
    }
    header
}

/// Encodes a key for a path. The result must not be encoded again.
pub(super) fn encode_path(key: &str) -> PercentEncode<'_> {
    utf8_percent_encode(key, PATH)
}

/// Encodes a value for a query.
pub(super) fn encode_query(value: &str) -> PercentEncode<'_> {
    utf8_percent_encode(value, QUERY)
}

/// The value of `x-amz-tagging`.
pub(super) fn encode_tags(tags: &[(String, String)]) -> Option<String> {
    let pairs: Vec<String> =
        tags.iter().map(|(name, value)| format!("{}={}", encode_query(name), encode_query(value))).collect();
    (!pairs.is_empty()).then(|| pairs.join("&"))
}

/// Decodes `encoding-type=url`: a `+` stands for a space, and `%2B` for a plus.
pub(super) fn decode_key(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// Removes the quotes of an `ETag`.
pub(super) fn unquote(etag: Option<&str>) -> String {
    etag.unwrap_or_default().trim_matches('"').to_owned()
}

/// Adds the quotes that an `ETag` has in conditions.
pub(super) fn quote(etag: &str) -> String {
    format!("\"{etag}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_source_encodes_all_but_unreserved_and_slashes() {
        let source = PinnedObject {
            bucket: "b".into(),
            key: "a//b/../c d+e?f%g#h&i=j~k_l-m.n\u{fc}\n".into(),
            version_id: Some("v.1_-".into()),
            if_match: None,
            size: 0,
        };

        assert_eq!(copy_source(&source), "b/a//b/../c%20d%2Be%3Ff%25g%23h%26i%3Dj~k_l-m.n%C3%BC%0A?versionId=v.1_-");
    }

    #[test]
    fn tags_are_encoded_as_a_query() {
        let tags = [("a b".to_owned(), "c&d=e+f/\u{fc}".to_owned()), ("x".to_owned(), String::new())];

        assert_eq!(encode_tags(&tags).unwrap(), "a%20b=c%26d%3De%2Bf%2F%C3%BC&x=");
        assert_eq!(encode_tags(&[]), None);
    }

    #[test]
    fn a_plus_in_a_listing_is_a_space() {
        assert_eq!(decode_key("a+b%20c%2Bd%0Ae%C3%BC"), "a b c+d\ne\u{fc}");
    }

    proptest::proptest! {
        #[test]
        fn a_copy_source_decodes_back_to_its_key(key: String, version in "[A-Za-z0-9._-]{0,32}") {
            let version_id = Some(version.clone()).filter(|version| !version.is_empty());
            let source = PinnedObject { bucket: "b".into(), key: key.clone(), version_id, if_match: None, size: 0 };
            let header = copy_source(&source);
            // As a service reads it: the first question mark ends the path, and there a plus is a plus.
            let (path, query) = header.split_once('?').unwrap_or((&header, ""));

            let read = percent_decode_str(path).decode_utf8().unwrap();
            assert_eq!(read.strip_prefix("b/"), Some(key.as_str()));
            assert_eq!(query.strip_prefix("versionId=").unwrap_or_default(), version);
            assert!(header.bytes().all(|byte| byte.is_ascii_graphic()));
        }

        #[test]
        fn an_encoded_key_of_a_listing_is_read_back(key: String) {
            let encoded = utf8_percent_encode(&key, QUERY).to_string();

            assert_eq!(decode_key(&encoded), key);
            assert_eq!(decode_key(&encoded.replace("%20", "+")), key);
        }

        #[test]
        fn tags_are_read_back_from_their_header(tags: Vec<(String, String)>) {
            let read = encode_tags(&tags).unwrap_or_default();
            let read = read.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
                let (name, value) = pair.split_once('=').unwrap();
                (decode_key(name), decode_key(value))
            });

            assert_eq!(read.collect::<Vec<_>>(), tags);
        }
    }
}
