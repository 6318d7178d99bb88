//! Addresses of endpoints: their validity, the identity of the storage behind them, and their form for display.
//!
//! All layers use these rules. No address is resolved or contacted.

use std::borrow::Cow;
use std::net::IpAddr;

use hyper::Uri;

/// Partitions of AWS with buckets of their own, by a part of their host names.
const SEPARATE_PARTITIONS: [(&str, &str); 2] = [(".amazonaws.com.cn", "aws-cn"), (".us-gov-", "aws-us-gov")];
/// Names of this machine; the first one represents all of them.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Reason why a text is no valid address of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressFault {
    /// The text may hold credentials, so it must not be shown.
    HoldsCredentials,
    /// The text is no `http://` or `https://` address of a host, or has a query.
    Malformed,
}

impl AddressFault {
    /// Returns the stable word for the fault.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HoldsCredentials => "credentials",
            Self::Malformed => "malformed",
        }
    }
}

/// Checks that a text is the address of an endpoint.
///
/// # Errors
/// An [`AddressFault`] for an invalid text.
pub fn check(url: &str) -> Result<(), AddressFault> {
    // This check comes first and covers the whole text: a password may hold a slash.
    if url.contains('@') {
        return Err(AddressFault::HoldsCredentials);
    }
    let is_address = url.split_once("://").is_some_and(|(scheme, rest)| {
        let host = rest.split('/').next().unwrap_or_default();
        matches!(scheme, "http" | "https") && !host.is_empty() && has_valid_port(host)
    });
    let is_plain = !url.contains(|character: char| character.is_whitespace() || matches!(character, '?' | '#'));
    if is_address && is_plain && url.parse::<Uri>().is_ok() { Ok(()) } else { Err(AddressFault::Malformed) }
}

/// True when a host has no port, or one from 1 to 65535.
fn has_valid_port(host: &str) -> bool {
    let port = match host.rsplit_once(']') {
        Some((_, after)) => after.strip_prefix(':'),
        None => host.split_once(':').map(|(_, port)| port),
    };
    port.is_none_or(|port| port.is_empty() || port.parse::<u16>().is_ok_and(|port| port != 0))
}

/// Identity of the storage at an address: the normalized address; the partition of AWS, if it has buckets of its own;
/// None for the rest of AWS, at any of its addresses.
pub fn identity(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (scheme, host) = (scheme.to_lowercase(), host.to_lowercase());
    let usual_port = if scheme == "https" { ":443" } else { ":80" };
    let host = host.strip_suffix(usual_port).unwrap_or(&host);
    if is_aws_host(host) {
        let name = host.split(':').next().unwrap_or_default();
        let partition = SEPARATE_PARTITIONS.iter().find(|(part, _)| name.contains(part));
        return partition.map(|(_, partition)| (*partition).to_owned());
    }
    let port = LOOPBACK
        .iter()
        .find_map(|name| host.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with(':')));
    let host = port.map_or(Cow::Borrowed(host), |port| Cow::Owned(format!("{}{port}", LOOPBACK[0])));
    Some(format!("{scheme}://{host}/{}", path.trim_end_matches('/')).trim_end_matches('/').to_owned())
}

/// True when an endpoint belongs to AWS, and so takes bucket names in its host name.
pub(super) fn is_aws(endpoint: &str) -> bool {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    is_aws_host(rest.split('/').next().unwrap_or_default())
}

fn is_aws_host(host: &str) -> bool {
    let name = host.split(':').next().unwrap_or_default();
    name.ends_with(".amazonaws.com") || name.ends_with(".amazonaws.com.cn")
}

/// True when others can change bodies in transit to this endpoint unnoticed by the checksums: TLS does not protect
/// them, and they leave this machine. The caller checks whether signatures cover them.
pub(super) fn is_unprotected(endpoint: &str) -> bool {
    let Ok(uri) = endpoint.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here =
        host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    uri.scheme_str() == Some("http") && !is_here
}

/// An address for display, without a password that does not belong there.
pub(super) fn without_userinfo(url: &str) -> Cow<'_, str> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..authority].rfind('@') {
        Some(at) => Cow::Owned(format!("{scheme}://{}", &rest[at + 1..])),
        None => Cow::Borrowed(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_hosts_with_a_port_that_can_be_connected_to() {
        for url in ["http://host", "https://host:9000/base/", "http://[::1]:9000", "http://host:", "https://127.0.0.1"]
        {
            assert_eq!(check(url), Ok(()), "{url}");
        }
        for url in [
            "",
            "host:9000",
            "ftp://host",
            "HTTP//host",
            "http://",
            "http:///path",
            "http://host:0",
            "http://host:99999",
            "http://host:x",
            "http://[::1]:x",
            "http://host?x=1",
            "http://host/a b",
            "http://host#part",
            "http://host\n",
        ] {
            assert_eq!(check(url), Err(AddressFault::Malformed), "{url}");
        }
        for url in ["https://key:secret@host", "key:secret@host", "http://key:x/secret@host"] {
            assert_eq!(check(url), Err(AddressFault::HoldsCredentials));
        }
    }

    #[test]
    fn an_address_has_one_identity_however_it_is_spelled() {
        for (url, same) in [
            ("http://127.0.0.1:8333", Some("http://localhost:8333")),
            ("HTTP://[::1]:8333/", Some("http://localhost:8333")),
            ("https://S3.example:443/Base/", Some("https://s3.example/Base")),
            ("http://s3.example:443", Some("http://s3.example:443")),
            ("https://localhost.example", Some("https://localhost.example")),
            ("https://fake-amazonaws.com", Some("https://fake-amazonaws.com")),
            ("https://s3.amazonaws.com", None),
            ("https://s3.eu-west-1.amazonaws.com:443/", None),
            ("https://s3.cn-north-1.amazonaws.com.cn", Some("aws-cn")),
            ("https://s3.us-gov-west-1.amazonaws.com", Some("aws-us-gov")),
        ] {
            assert_eq!(identity(url).as_deref(), same, "{url}");
        }
    }

    #[test]
    fn only_amazon_hosts_get_virtual_host_style() {
        for aws in [
            "https://s3.us-east-1.amazonaws.com",
            "https://s3.cn-north-1.amazonaws.com.cn/",
            "https://bucket.vpce-1.s3.eu-west-1.vpce.amazonaws.com:443",
        ] {
            assert!(is_aws(aws), "{aws}");
        }
        for other in [
            "http://127.0.0.1:8333",
            "https://amazonaws.com.example.org",
            "http://minio:9000",
            "https://x.r2.cloudflarestorage.com",
        ] {
            assert!(!is_aws(other), "{other}");
        }
    }

    #[test]
    fn only_plain_http_to_other_machines_is_open_to_others() {
        for open in ["http://minio.lab:9000", "http://10.0.0.1", "http://[fd00::1]:9000", "http://localhost.lab"] {
            assert!(is_unprotected(open), "{open}");
        }
        for closed in ["https://minio.lab", "http://localhost:9000", "http://127.0.0.2:1", "http://[::1]:9000"] {
            assert!(!is_unprotected(closed), "{closed}");
        }
    }

    #[test]
    fn passwords_in_addresses_are_not_shown() {
        assert_eq!(without_userinfo("http://user:pass@host:9/p"), "http://host:9/p");
        assert_eq!(without_userinfo("http://user:p@ss@host"), "http://host");
        assert_eq!(without_userinfo("http://host/a@b"), "http://host/a@b");
    }
}
