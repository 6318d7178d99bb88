//! Clients of an export: which addresses may use it, and as which users they count.

use std::fmt;
use std::net::IpAddr;

use seqferry_share::Caller;

use crate::call::Credentials;
use crate::error::ServerError;

/// Entries of one list, as those of an AWS file share.
const MAX_ENTRIES: usize = 100;

/// Addresses that may use an export. It is checked at the mount and at every call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientList {
    networks: Vec<Network>,
    is_default: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u8,
}

impl ClientList {
    /// Programs on this machine, and no others.
    pub fn loopback() -> Self {
        let networks = ["127.0.0.0/8", "::1"].iter().filter_map(|entry| Network::parse(entry)).collect();
        Self { networks, is_default: true }
    }

    /// A list of addresses and networks such as `10.1.2.0/24`; empty: programs on this machine.
    ///
    /// # Errors
    /// When an entry is neither, has bits beyond its prefix, or there are more than 100.
    pub fn parse<T: AsRef<str>>(entries: &[T]) -> Result<Self, ServerError> {
        if entries.is_empty() {
            return Ok(Self::loopback());
        }
        if entries.len() > MAX_ENTRIES {
            let text = format!("{} clients are listed, and at most {MAX_ENTRIES} may be: list networks", entries.len());
            return Err(ServerError(text));
        }
        let networks = entries.iter().map(|entry| {
            Network::parse(entry.as_ref()).ok_or_else(|| {
                let entry = entry.as_ref();
                ServerError(format!(
                    "the client {entry:?} is no address and no network: write 10.1.2.3, 10.1.2.0/24 or fd00::/8"
                ))
            })
        });
        Ok(Self { networks: networks.collect::<Result<_, _>>()?, is_default: false })
    }

    /// True when this address may use the export.
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.holds(address))
    }

    /// True for the list of an export that names no clients.
    pub(crate) const fn is_default(&self) -> bool {
        self.is_default
    }

    /// The entries, as `showmount` shows them.
    pub(crate) fn entries(&self) -> impl Iterator<Item = String> + '_ {
        self.networks.iter().map(ToString::to_string)
    }
}

impl Network {
    fn parse(entry: &str) -> Option<Self> {
        let (address, bits) = match entry.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (entry, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => width,
            Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok()?,
            Some(_) => return None,
        };
        let network = Self { address, bits };
        (bits <= width && network.masked(address) == number(address)).then_some(network)
    }

    fn holds(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && self.masked(address) == self.masked(self.address)
    }

    /// The bits of an address within the prefix.
    fn masked(self, address: IpAddr) -> u128 {
        let width: u32 = if address.is_ipv4() { 32 } else { 128 };
        let rest = width - u32::from(self.bits).min(width);
        number(address).checked_shr(rest).unwrap_or(0).checked_shl(rest).unwrap_or(0)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

/// Users of clients that count as another user on this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Squash {
    /// Root counts as the anonymous user.
    #[default]
    Root,
    /// All users count as the anonymous user.
    All,
    /// All users stay themselves, root among them.
    None,
}

/// The anonymous user, and which users count as it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserMapping {
    pub(crate) squash: Squash,
    pub(crate) anonymous_uid: u32,
    pub(crate) anonymous_gid: u32,
}

impl UserMapping {
    /// The caller behind credentials. Without credentials it is the anonymous user, and never root.
    pub(crate) fn caller(&self, address: IpAddr, credentials: &Credentials) -> Caller {
        let anonymous = || Caller { address, uid: self.anonymous_uid, gid: self.anonymous_gid, groups: Vec::new() };
        let Credentials::System { uid, gid, groups } = credentials else { return anonymous() };
        let group = |gid: u32| if gid == 0 { self.anonymous_gid } else { gid };
        match self.squash {
            Squash::All => anonymous(),
            Squash::None => Caller { address, uid: *uid, gid: *gid, groups: groups.clone() },
            Squash::Root => Caller {
                address,
                uid: if *uid == 0 { self.anonymous_uid } else { *uid },
                gid: group(*gid),
                groups: groups.iter().copied().map(group).collect(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_hold_addresses_and_networks_of_both_families() {
        let list = ClientList::parse(&["10.1.2.0/24", "192.0.2.7", "fd00::/8", "::1/128"]).unwrap();
        for (address, is_allowed) in [
            ("10.1.2.255", true),
            ("10.1.3.0", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("::ffff:192.0.2.7", true),
            ("fd12::1", true),
            ("fe80::1", false),
            ("::1", true),
            ("127.0.0.1", false),
        ] {
            assert_eq!(list.allows(address.parse().unwrap()), is_allowed, "{address}");
        }
        assert!(ClientList::parse(&["0.0.0.0/0"]).unwrap().allows("8.8.8.8".parse().unwrap()));
        assert!(!ClientList::parse(&["0.0.0.0/0"]).unwrap().allows("::1".parse().unwrap()));
        assert!(ClientList::parse::<&str>(&[]).unwrap().allows("127.9.9.9".parse().unwrap()));
    }

    #[test]
    fn entries_that_are_no_network_are_refused() {
        for entry in
            ["", "host", "10.1.2.3/24", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/8/8", "*", "::/129"]
        {
            let refused = ClientList::parse(&[entry]).unwrap_err().to_string();
            assert!(refused.contains(&format!("{entry:?}")), "{entry:?}: {refused}");
        }
        assert!(ClientList::parse(&["10.0.0.1"; 101]).is_err());
    }

    #[test]
    fn squash_decides_who_calls() {
        let address = "127.0.0.1".parse().unwrap();
        let root = Credentials::System { uid: 0, gid: 0, groups: vec![0, 4] };
        let user = Credentials::System { uid: 7, gid: 8, groups: vec![9] };
        let of = |squash, credentials: &Credentials| {
            let caller =
                UserMapping { squash, anonymous_uid: 65534, anonymous_gid: 65533 }.caller(address, credentials);
            (caller.uid, caller.gid, caller.groups)
        };
        assert_eq!(of(Squash::Root, &root), (65534, 65533, vec![65533, 4]));
        assert_eq!(of(Squash::Root, &user), (7, 8, vec![9]));
        assert_eq!(of(Squash::All, &user), (65534, 65533, vec![]));
        assert_eq!(of(Squash::None, &root), (0, 0, vec![0, 4]));
        for squash in [Squash::Root, Squash::All, Squash::None] {
            assert_eq!(of(squash, &Credentials::None), (65534, 65533, vec![]), "{squash:?}");
        }
    }
}
