//! Files of the AWS tools (`~/.aws/config`, `~/.aws/credentials`), also as editors and shells of Windows write them.
//!
//! The SDK treats a byte order mark as a part of the first line, and ignores that line silently. It treats a file as
//! empty if one byte is not UTF-8, such as in an ISO-8859-1 comment. Such files are converted here and passed to the
//! SDK as plain text: without them requests would go to another service.

use std::env;
use std::fs;
use std::path::PathBuf;

use aws_runtime::env_config::file::{EnvConfigFileKind, EnvConfigFiles};

/// Both files, for loaders and providers of the SDK.
pub(super) fn profile_files() -> EnvConfigFiles {
    use EnvConfigFileKind::{Config, Credentials};
    let mut files = EnvConfigFiles::builder();
    files = match read_converted("AWS_CONFIG_FILE", "config") {
        Some(text) => files.with_contents(Config, text),
        None => files.include_default_config_file(true),
    };
    files = match read_converted("AWS_SHARED_CREDENTIALS_FILE", "credentials") {
        Some(text) => files.with_contents(Credentials, text),
        None => files.include_default_credentials_file(true),
    };
    files.build()
}

/// The profile that the environment names.
#[expect(clippy::disallowed_methods, reason = "the variables of the AWS SDK are read where it reads its own")]
pub(super) fn profile_of_environment() -> Option<String> {
    env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty())
}

/// Text of a file that the SDK would misread; None for all others.
#[expect(clippy::disallowed_methods, reason = "the variables of the AWS SDK are read where it reads its own")]
fn read_converted(variable: &str, name: &str) -> Option<String> {
    let path = env::var_os(variable).map_or_else(|| PathBuf::from("~/.aws").join(name), PathBuf::from);
    let path = match path.strip_prefix("~") {
        Ok(below) => PathBuf::from(env::var_os("HOME")?).join(below),
        Err(_) => path,
    };
    to_plain_utf8(&fs::read(path).ok()?)
}

/// Text of bytes with a mark, or that are no UTF-8: they are taken for ISO-8859-1, in which each byte is a character.
/// None for plain UTF-8.
fn to_plain_utf8(bytes: &[u8]) -> Option<String> {
    decode_marked(bytes).or_else(|| {
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        str::from_utf8(bytes).is_err().then(|| bytes.iter().map(|byte| char::from(*byte)).collect())
    })
}

/// Text without its mark; None without a mark, or where the bytes are not what the mark says.
pub(super) fn decode_marked(bytes: &[u8]) -> Option<String> {
    let (utf_16, rest): (fn([u8; 2]) -> u16, _) = match bytes {
        [0xEF, 0xBB, 0xBF, rest @ ..] => return String::from_utf8(rest.to_vec()).ok(),
        [0xFF, 0xFE, rest @ ..] => (u16::from_le_bytes, rest),
        [0xFE, 0xFF, rest @ ..] => (u16::from_be_bytes, rest),
        _ => return None,
    };
    let (units, []) = rest.as_chunks::<2>() else { return None };
    String::from_utf16(&units.iter().map(|unit| utf_16(*unit)).collect::<Vec<_>>()).ok()
}

#[cfg(test)]
mod tests {
    use super::{decode_marked, to_plain_utf8};

    #[test]
    fn text_loses_its_mark_and_nothing_else() {
        let text = "[default]\r\nregion = é\r\n";
        let le: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let be: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for (mark, body) in [(&b"\xEF\xBB\xBF"[..], text.as_bytes()), (b"\xFF\xFE", &le), (b"\xFE\xFF", &be)] {
            assert_eq!(decode_marked(&[mark, body].concat()).as_deref(), Some(text));
        }
        assert_eq!(decode_marked(text.as_bytes()), None);
        assert_eq!(decode_marked(b"\xFF\xFEa"), None);
        assert_eq!(decode_marked(b""), None);
    }

    #[test]
    fn bytes_that_are_no_utf_8_are_read_as_iso_8859_1() {
        assert_eq!(to_plain_utf8(b"# caf\xE9\n[a]").as_deref(), Some("# caf\u{e9}\n[a]"));
        assert_eq!(to_plain_utf8(b"\xEF\xBB\xBF[a]\n# \xE9").as_deref(), Some("[a]\n# \u{e9}"));
        assert_eq!(to_plain_utf8("# café\n[a]".as_bytes()), None);
        assert_eq!(to_plain_utf8(b"[a]\n"), None);
    }
}
