//! The port mapper (RFC 1833): it tells clients which port serves a program. Other programs cannot register here.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use nfs3_types::portmap::{PMAP_PORT, mapping, pmaplist};
use nfs3_types::xdr_codec::{List, Opaque, Void, XdrCodec};
use nfs3_types::{mount, nfs3, portmap};

use crate::call::{Client, Transport};
use crate::reply::Payload;
use crate::xdr::{Decoder, Malformed};

/// Port of the port mapper.
pub(crate) const PORT: u16 = PMAP_PORT;
/// Versions of the protocol: 2 names protocols of IPv4 by numbers, 3 and 4 have addresses as texts.
pub(crate) const VERSIONS: (u32, u32) = (portmap::VERSION, 4);
/// Longest text in a call.
const MAX_TEXT: usize = 256;
/// Owner of entries, for people.
pub(crate) const OWNER: &str = "seqferry";

/// A program that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) transport: Transport,
    pub(crate) port: u16,
}

/// Programs that clients find, without the port mapper itself.
pub(crate) fn services(port: u16) -> [Service; 3] {
    [
        Service { program: nfs3::PROGRAM, version: nfs3::VERSION, transport: Transport::Tcp, port },
        Service { program: mount::PROGRAM, version: mount::VERSION, transport: Transport::Tcp, port },
        Service { program: mount::PROGRAM, version: mount::VERSION, transport: Transport::Udp, port },
    ]
}

/// Programs and where they are served.
#[derive(Debug)]
pub(crate) struct PortMap {
    services: Vec<Service>,
    /// Kinds of addresses: IPv4, IPv6. A socket of all IPv6 addresses takes calls by IPv4, too.
    families: &'static [bool],
}

impl PortMap {
    /// Programs of a server at this address, and its port mapper.
    pub(crate) fn new(address: SocketAddr) -> Self {
        let versions = VERSIONS.0..=VERSIONS.1;
        let own = versions.flat_map(|version| [Transport::Tcp, Transport::Udp].map(|transport| (version, transport)));
        let own = own.map(|(version, transport)| Service { program: portmap::PROGRAM, version, transport, port: PORT });
        let services = own.chain(services(address.port())).collect();
        Self { services, families: families(address.ip()) }
    }

    /// The port of a program. One with another version is named as well: the reply to a call of it states which
    /// versions there are.
    fn port(&self, program: u32, version: u32, is_meant: impl Fn(Transport) -> bool) -> Option<u16> {
        let mut of_program =
            self.services.iter().filter(|service| service.program == program && is_meant(service.transport));
        let first = of_program.clone().next();
        of_program.find(|service| service.version == version).or(first).map(|service| service.port)
    }
}

/// Kinds of addresses that a socket at this address serves: true for IPv4.
pub(crate) const fn families(address: IpAddr) -> &'static [bool] {
    match address {
        IpAddr::V4(_) => &[true],
        IpAddr::V6(address) if address.is_unspecified() => &[true, false],
        IpAddr::V6(_) => &[false],
    }
}

/// A procedure of the port mapper, whatever its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PortMapCall {
    Null,
    /// Register or remove a program.
    Change,
    /// Version 2: a number.
    Port,
    Dump,
    /// Versions 3 and 4: an address as a text. `exact`: only of this version of the program.
    Address {
        exact: bool,
    },
    DumpAddresses,
    Time,
}

impl PortMapCall {
    /// None: a procedure that is not served. Among them are those that call a procedure of another program for the
    /// client: they would hide who calls.
    pub(crate) const fn parse(version: u32, procedure: u32) -> Option<Self> {
        match (version, procedure) {
            (_, 0) => Some(Self::Null),
            (_, 1 | 2) => Some(Self::Change),
            (2, 3) => Some(Self::Port),
            (2, 4) => Some(Self::Dump),
            (3 | 4, 3) => Some(Self::Address { exact: false }),
            (3 | 4, 4) => Some(Self::DumpAddresses),
            (3 | 4, 6) => Some(Self::Time),
            (4, 9) => Some(Self::Address { exact: true }),
            _ => None,
        }
    }
}

/// An entry of versions 3 and 4.
#[derive(Debug, XdrCodec)]
pub(crate) struct AddressEntry<'a> {
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) net_id: Opaque<'a>,
    pub(crate) address: Opaque<'a>,
    pub(crate) owner: Opaque<'a>,
}

impl AddressEntry<'static> {
    pub(crate) fn new(service: Service, is_ipv4: bool, address: &str) -> Self {
        Self {
            program: service.program,
            version: service.version,
            net_id: Opaque::borrowed(service.transport.net_id(is_ipv4).as_bytes()),
            address: Opaque::owned(address.as_bytes().to_vec()),
            owner: Opaque::borrowed(OWNER.as_bytes()),
        }
    }
}

/// An address and a port as one text (RFC 5665): 10.1.2.3.8.1.
pub(crate) fn universal_address(address: IpAddr, port: u16) -> String {
    let mut text = address.to_string();
    // Writing to memory does not fail.
    let _written = write!(text, ".{}.{}", port >> 8, port & 0xff);
    text
}

/// Run a procedure.
pub(crate) fn run(
    map: &PortMap,
    client: Client,
    procedure: PortMapCall,
    arguments: Bytes,
) -> Result<Payload, Malformed> {
    let mut args = Decoder::new(arguments);
    let local = client.local.to_canonical();
    let is_ipv4 = local.is_ipv4();
    Ok(match procedure {
        PortMapCall::Null => Payload::plain(&Void),
        PortMapCall::Change => Payload::plain(&false),
        PortMapCall::Port => {
            let (program, version, protocol, _port) = (args.number()?, args.number()?, args.number()?, args.number()?);
            args.end()?;
            let port = map.port(program, version, |transport| transport.number() == protocol);
            Payload::plain(&u32::from(port.unwrap_or(0)))
        }
        PortMapCall::Dump => {
            let list: pmaplist = List(map.services.iter().map(|service| mapping::from(*service)).collect());
            Payload::plain(&list)
        }
        PortMapCall::Address { exact } => {
            let (program, version) = (args.number()?, args.number()?);
            let net_id = args.opaque(MAX_TEXT)?;
            let _address_and_owner = (args.opaque(MAX_TEXT)?, args.opaque(MAX_TEXT)?);
            args.end()?;
            // Without a name it is that of the call.
            let wanted = if net_id.is_empty() { client.transport.net_id(is_ipv4).as_bytes() } else { &net_id };
            let is_meant = |transport: Transport| transport.net_id(is_ipv4).as_bytes() == wanted;
            let found = map.port(program, version, is_meant);
            let is_exact = || map.services.iter().any(|one| (one.program, one.version) == (program, version));
            let found = found.filter(|_| !exact || is_exact());
            let text = found.map(|port| universal_address(local, port)).unwrap_or_default();
            Payload::plain(&Opaque::owned(text.into_bytes()))
        }
        PortMapCall::DumpAddresses => {
            let entry =
                |service: &Service| AddressEntry::new(*service, is_ipv4, &universal_address(local, service.port));
            let entries = map.families.iter().filter(|family| **family == is_ipv4);
            let list = List(entries.flat_map(|_| map.services.iter().map(entry)).collect::<Vec<_>>());
            Payload::plain(&list)
        }
        PortMapCall::Time => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            // The protocol has 32 bits for seconds since 1970.
            Payload::plain(&u32::try_from(now).unwrap_or(u32::MAX))
        }
    })
}

impl From<Service> for mapping {
    fn from(service: Service) -> Self {
        Self {
            prog: service.program,
            vers: service.version,
            prot: service.transport.number(),
            port: u32::from(service.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_port_in_two_numbers() {
        for (address, port, text) in [
            ("10.1.2.3", 2049, "10.1.2.3.8.1"),
            ("0.0.0.0", 111, "0.0.0.0.0.111"),
            ("fd00::7", 65535, "fd00::7.255.255"),
        ] {
            assert_eq!(universal_address(address.parse().unwrap(), port), text);
        }
    }

    #[test]
    fn another_version_of_a_program_has_its_port_and_another_program_or_protocol_has_none() {
        let map = PortMap::new("10.0.0.1:2049".parse().unwrap());
        let port = |program, version, transport| map.port(program, version, |one| one == transport);
        for (program, version, transport, expected) in [
            (nfs3::PROGRAM, 3, Transport::Tcp, Some(2049)),
            (nfs3::PROGRAM, 4, Transport::Tcp, Some(2049)),
            (nfs3::PROGRAM, 3, Transport::Udp, None),
            (mount::PROGRAM, 1, Transport::Udp, Some(2049)),
            (portmap::PROGRAM, 4, Transport::Udp, Some(PORT)),
            (100_021, 4, Transport::Tcp, None),
        ] {
            assert_eq!(port(program, version, transport), expected, "{program} {version} {transport:?}");
        }
    }
}
