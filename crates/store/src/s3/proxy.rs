//! Proxies of the environment, and the hosts that are reached without one.
//!
//! The variables are read as curl and the AWS CLI read them ([`Proxies`]). The AWS SDK, which asks for credentials,
//! knows neither ports nor brackets in `NO_PROXY`, and a `*` there does not mean addresses; so it gets a proxy for a
//! request, or none.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::{Builder, Connector, tls};
use aws_smithy_runtime_api::client::http::{
    HttpClient as _, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
    http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use hyper::Uri;
use percent_encoding::percent_decode_str;

use crate::checksum::base64;

/// A proxy.
#[derive(Clone)]
pub(super) struct Proxy {
    /// As it is written in the environment.
    text: String,
    /// The address without user and password.
    pub(super) address: Uri,
    /// User and password, as a header has them.
    pub(super) login: Option<String>,
}

impl fmt::Debug for Proxy {
    /// Shows no address: it may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").finish_non_exhaustive()
    }
}

impl Proxy {
    /// Reads the address of a proxy as it is written in a variable; without a scheme it is HTTP.
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = text.parse().ok()?;
        let authority = uri.authority()?.as_str();
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let address = Uri::builder().scheme(uri.scheme_str()?).authority(host).path_and_query("/").build().ok()?;
        address.host().filter(|host| !host.is_empty())?;
        let login = user.map(|user| {
            let (user, password) = user.split_once(':').unwrap_or((user, ""));
            let plain = [percent_decode_str(user).collect(), b":".to_vec(), percent_decode_str(password).collect()];
            format!("Basic {}", base64(&plain.concat()))
        });
        Some(Self { text, address, login })
    }
}

/// Proxies by scheme, and the hosts that need none.
///
/// `https_proxy`, `http_proxy`, `all_proxy` and `no_proxy` count in lower case first, also where they are empty, and
/// then in upper case. `HTTP_PROXY` does not count in a CGI program, where a client could set it.
#[derive(Debug, Default)]
pub(super) struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    no_proxy: NoProxy,
}

impl Proxies {
    /// The proxies of this process's environment.
    #[expect(clippy::disallowed_methods, reason = "as the HTTP clients of the AWS SDK, which read them by themselves")]
    pub(super) fn from_env() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let either = |name: &str| variable(name).or_else(|| variable(&name.to_uppercase()));
        let all_proxy = either("all_proxy").and_then(|text| Proxy::read(&text));
        let is_cgi = variable("REQUEST_METHOD").is_some();
        let http = if is_cgi { variable("http_proxy") } else { either("http_proxy") };
        // An empty variable disables the proxy for this scheme.
        let chosen = |text: Option<String>| match text {
            Some(text) => Proxy::read(&text),
            None => all_proxy.clone(),
        };
        Self {
            http: chosen(http),
            https: chosen(either("https_proxy")),
            no_proxy: NoProxy::parse(&either("no_proxy").unwrap_or_default()),
        }
    }

    /// The proxy for requests to this address; None: it is reached directly.
    pub(super) fn proxy_of(&self, to: &Uri) -> Option<&Proxy> {
        let (proxy, default_port) = match to.scheme_str() {
            Some("http") => (self.http.as_ref()?, 80),
            Some("https") => (self.https.as_ref()?, 443),
            _ => return None,
        };
        let is_direct = self.no_proxy.contains(to.host()?, to.port_u16().unwrap_or(default_port));
        (!is_direct).then_some(proxy)
    }

    fn is_none(&self) -> bool {
        self.http.is_none() && self.https.is_none()
    }
}

/// The hosts of `NO_PROXY`.
#[derive(Debug, Default, PartialEq, Eq)]
struct NoProxy(Vec<NoProxyEntry>);

/// An entry of `NO_PROXY`.
#[derive(Debug, PartialEq, Eq)]
struct NoProxyEntry {
    hosts: HostPattern,
    /// None: all ports.
    port: Option<u16>,
}

#[derive(Debug, PartialEq, Eq)]
enum HostPattern {
    All,
    /// A domain and everything below it, in lower case.
    Domain(String),
    /// Addresses that begin with so many bits of this one.
    Network(IpAddr, u8),
}

impl NoProxy {
    /// Entries are separated by commas, by spaces, or by both.
    fn parse(text: &str) -> Self {
        let words = text.split(|character: char| character == ',' || character.is_whitespace());
        Self(words.filter_map(NoProxyEntry::parse).collect())
    }

    fn contains(&self, host: &str, port: u16) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let address = parse_address(&host);
        self.0.iter().any(|entry| {
            entry.port.is_none_or(|only| only == port)
                && match (&entry.hosts, address) {
                    (HostPattern::All, _) => true,
                    (HostPattern::Network(network, bits), Some(address)) => is_within(address, *network, *bits),
                    (HostPattern::Domain(domain), None) => {
                        host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                    }
                    _ => false,
                }
        })
    }
}

impl NoProxyEntry {
    /// None for an invalid entry.
    fn parse(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        if let Some(hosts) = parse_network(&word) {
            return Some(Self { hosts, port: None });
        }
        let (host, port) = match word.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (word.as_str(), None),
        };
        let domain = host.trim_start_matches('*').trim_start_matches('.').trim_end_matches('.');
        let hosts = match parse_network(host) {
            Some(network) => network,
            None if host == "*" => HostPattern::All,
            None if domain.is_empty() => return None,
            None => HostPattern::Domain(domain.to_owned()),
        };
        Some(Self { hosts, port })
    }
}

/// `10.0.0.0/8`, `fd00::/8`, `[fd00::]/8`, or an address alone.
fn parse_network(text: &str) -> Option<HostPattern> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let address = parse_address(address)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    (bits <= most).then_some(HostPattern::Network(address, bits))
}

/// An address, with or without brackets and a zone; one of IPv4 within IPv6 is that of IPv4.
fn parse_address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let bare = bare.split('%').next().unwrap_or(bare);
    bare.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let (address, network, width) = match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (u128::from(one.to_bits()), u128::from(other.to_bits()), 32_u8),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits(), other.to_bits(), 128),
        _ => return false,
    };
    (address ^ network).checked_shr(u32::from(width - bits)).unwrap_or(0) == 0
}

/// Makes a connector of the SDK through this proxy, or through none.
fn sdk_connector(
    proxy: Option<&str>,
    settings: Option<&HttpConnectorSettings>,
    components: Option<&RuntimeComponents>,
) -> Connector {
    let proxies = match proxy {
        // SOCKS is left to the SDK's own reading of the environment.
        Some(proxy) => ProxyConfig::all(proxy.to_owned()).unwrap_or_else(|_| ProxyConfig::from_env()),
        None => ProxyConfig::disabled(),
    };
    let mut connector = Connector::builder()
        .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::AwsLc))
        .proxy_config(proxies);
    connector.set_connector_settings(settings.cloned());
    connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
    connector.build()
}

/// Returns the AWS SDK's client for services that provide credentials, which makes its connectors on demand.
pub(super) fn credentials_client() -> SharedHttpClient {
    let proxies = Arc::new(Proxies::from_env());
    let direct = client_for_proxy(None);
    if proxies.is_none() {
        return direct;
    }
    let (http, https) = (client_for_proxy(proxies.http.as_ref()), client_for_proxy(proxies.https.as_ref()));
    http_client_fn(move |settings, components| {
        SharedHttpConnector::new(CredentialsConnector {
            proxies: Arc::clone(&proxies),
            direct: direct.http_connector(settings, components),
            http: http.http_connector(settings, components),
            https: https.http_connector(settings, components),
        })
    })
}

fn client_for_proxy(proxy: Option<&Proxy>) -> SharedHttpClient {
    let proxy = proxy.map(|proxy| proxy.text.clone());
    Builder::new()
        .build_with_connector_fn(move |settings, components| sdk_connector(proxy.as_deref(), settings, components))
}

/// Connector for services that provide credentials: some are reached through a proxy, others on this machine.
#[derive(Debug)]
struct CredentialsConnector {
    proxies: Arc<Proxies>,
    direct: SharedHttpConnector,
    http: SharedHttpConnector,
    https: SharedHttpConnector,
}

impl HttpConnector for CredentialsConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let to = request.uri().parse::<Uri>().ok();
        let is_proxied = to.as_ref().is_some_and(|to| self.proxies.proxy_of(to).is_some());
        match to.as_ref().and_then(Uri::scheme_str) {
            Some("https") if is_proxied => self.https.call(request),
            _ if is_proxied => self.http.call(request),
            _ => self.direct.call(request),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXY: &str = "http://proxy:3128";

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        Proxies::read(|name| variables.iter().find(|(one, _)| *one == name).map(|(_, value)| (*value).to_owned()))
    }

    fn proxy_of(variables: &[(&str, &str)], to: &str) -> Option<String> {
        proxies(variables).proxy_of(&to.parse().unwrap()).map(|proxy| proxy.text.clone())
    }

    fn is_direct(no_proxy: &str, to: &str) -> bool {
        proxy_of(&[("all_proxy", PROXY), ("no_proxy", no_proxy)], to).is_none()
    }

    #[test]
    fn entries_of_no_proxy_hold_as_for_curl_and_the_aws_cli() {
        for (no_proxy, direct, proxied) in [
            // All, addresses included.
            ("*", &["http://127.0.0.1:9000", "https://s3.lab", "http://[::1]:80"][..], &[][..]),
            (" * ", &["http://10.1.2.3"], &[]),
            ("s3.lab,*", &["http://10.1.2.3"], &[]),
            ("", &[], &["http://127.0.0.1", "http://localhost", "https://s3.lab"]),
            // Domains and all below them, with any dots, in any case.
            (
                "s3.lab",
                &["https://s3.lab", "https://S3.LAB:9000", "https://b.s3.lab", "https://s3.lab."],
                &["https://xs3.lab"],
            ),
            (".s3.lab", &["https://s3.lab", "https://b.s3.lab"], &["https://xs3.lab", "https://s3.lab.org"]),
            ("*.s3.lab", &["https://b.s3.lab", "https://a.b.s3.lab"], &["https://xs3.lab"]),
            ("S3.Lab.", &["https://b.s3.lab"], &["https://lab"]),
            ("lab", &["https://s3.lab"], &["https://s3.collab"]),
            // Commas and spaces.
            ("a.org, s3.lab ,b.org", &["https://s3.lab", "https://b.org"], &["https://c.org"]),
            ("a.org s3.lab\tb.org", &["https://a.org", "https://s3.lab", "https://b.org"], &["https://c.org"]),
            (",,,s3.lab,", &["https://s3.lab"], &["https://c.org"]),
            // Ports; those of the scheme where none is written.
            ("s3.lab:9000", &["http://s3.lab:9000", "http://b.s3.lab:9000"], &["http://s3.lab", "http://s3.lab:9001"]),
            ("s3.lab:443", &["https://s3.lab"], &["http://s3.lab"]),
            ("10.1.2.3:9000", &["http://10.1.2.3:9000"], &["http://10.1.2.3", "http://10.1.2.4:9000"]),
            ("*:9000", &["http://10.1.2.3:9000", "http://s3.lab:9000"], &["http://s3.lab"]),
            // Addresses and networks.
            ("10.1.2.3", &["http://10.1.2.3:9000"], &["http://10.1.2.30", "http://110.1.2.3"]),
            ("10.0.0.0/8", &["http://10.1.2.3", "https://10.255.0.1:1"], &["http://11.0.0.1", "http://ten.lab"]),
            ("192.168.1.0/25,0.0.0.0/33", &["http://192.168.1.127"], &["http://192.168.1.128"]),
            ("0.0.0.0/0", &["http://8.8.8.8"], &["http://[fd00::1]"]),
            ("169.254.169.254", &["http://169.254.169.254/latest"], &["http://169.254.170.2/v2"]),
            // IPv6, with and without brackets.
            ("::1", &["http://[::1]:9000"], &["http://[::2]"]),
            ("[::1]", &["http://[::1]:9000", "http://[0:0:0:0:0:0:0:1]"], &["http://[::2]"]),
            ("[::1]:9000", &["http://[::1]:9000"], &["http://[::1]:9001"]),
            ("fd00::/8", &["http://[fd12::1]:80"], &["http://[fe80::1]"]),
            ("[fd00::]/8", &["http://[fd12::1]:80"], &["http://[fe80::1]"]),
            ("::ffff:10.1.2.3", &["http://10.1.2.3"], &["http://10.1.2.4"]),
            // Invalid entries do not hide the others.
            (
                "http://x,s3.lab:port,.,*.,10.0.0.0/99,ok.lab",
                &["https://ok.lab"],
                &["https://s3.lab", "http://10.1.2.3"],
            ),
        ] {
            for to in direct {
                assert!(is_direct(no_proxy, to), "{no_proxy:?} {to}");
            }
            for to in proxied {
                assert!(!is_direct(no_proxy, to), "{no_proxy:?} {to}");
            }
        }
    }

    #[test]
    fn lower_case_goes_before_upper_case_and_a_scheme_before_all() {
        let (one, other) = ("http://one:1", "http://other:2");
        let to = "https://s3.lab";
        for (variables, proxy) in [
            (&[("HTTPS_PROXY", one)][..], Some(one)),
            (&[("HTTPS_PROXY", other), ("https_proxy", one)], Some(one)),
            (&[("HTTPS_PROXY", other), ("https_proxy", "")], None),
            (&[("all_proxy", other), ("HTTPS_PROXY", one)], Some(one)),
            (&[("ALL_PROXY", other)], Some(other)),
            (&[("ALL_PROXY", other), ("HTTPS_PROXY", "")], None),
            (&[("HTTP_PROXY", other)], None),
            (&[("HTTPS_PROXY", one), ("NO_PROXY", "*"), ("no_proxy", "a.org")], Some(one)),
            (&[("HTTPS_PROXY", one), ("NO_PROXY", "s3.lab"), ("no_proxy", "")], Some(one)),
            (&[("HTTPS_PROXY", one), ("NO_PROXY", "s3.lab")], None),
            (&[("https_proxy", " proxy:3128 ")], Some(PROXY)),
            (&[("https_proxy", "://")], None),
        ] {
            assert_eq!(proxy_of(variables, to).as_deref(), proxy, "{variables:?}");
        }
    }

    #[test]
    fn the_user_of_a_proxy_goes_into_a_header_and_not_into_an_address() {
        for (text, address, login) in [
            ("http://proxy:3128", "http://proxy:3128/", None),
            ("https://proxy/", "https://proxy/", None),
            ("http://user:word@proxy:3128", "http://proxy:3128/", Some("Basic dXNlcjp3b3Jk")),
            ("user:w%40rd@proxy", "http://proxy/", Some("Basic dXNlcjp3QHJk")),
            ("http://user@[::1]:80", "http://[::1]:80/", Some("Basic dXNlcjo=")),
        ] {
            let proxy = Proxy::read(text).expect(text);
            assert_eq!((proxy.address.to_string().as_str(), proxy.login.as_deref()), (address, login), "{text}");
            assert!(!format!("{proxy:?}").contains("word"));
        }
    }

    #[test]
    fn a_client_of_a_cgi_program_chooses_no_proxy() {
        let variables = [("REQUEST_METHOD", "GET"), ("HTTP_PROXY", PROXY)];

        assert_eq!(proxy_of(&variables, "http://s3.lab"), None);
        assert_eq!(proxy_of(&variables[1..], "http://s3.lab").as_deref(), Some(PROXY));
    }
}
