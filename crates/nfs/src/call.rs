//! The head of a call: program, procedure and credentials (RFC 5531).

use std::net::IpAddr;

use bytes::Bytes;
use nfs3_types::portmap::{IPPROTO_TCP, IPPROTO_UDP};
use nfs3_types::rpc::{RPC_VERSION_2, auth_flavor, auth_stat};

use crate::xdr::{Decoder, Malformed};

/// Longest credentials of the protocol.
const MAX_CREDENTIALS: usize = 400;
/// Longest name of a machine and most groups in credentials of a Unix user.
const MAX_MACHINE_NAME: usize = 255;
const MAX_GROUPS: u32 = 16;

/// The user that a client states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// None at all.
    None,
    /// A Unix user.
    System { uid: u32, gid: u32, groups: Vec<u32> },
}

/// Transport of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Tcp => IPPROTO_TCP,
            Self::Udp => IPPROTO_UDP,
        }
    }

    /// Name of the transport with this kind of address.
    pub(crate) const fn net_id(self, is_ipv4: bool) -> &'static str {
        match (self, is_ipv4) {
            (Self::Tcp, true) => "tcp",
            (Self::Tcp, false) => "tcp6",
            (Self::Udp, true) => "udp",
            (Self::Udp, false) => "udp6",
        }
    }
}

/// A client, and the way of its calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) address: IpAddr,
    /// The address that it calls.
    pub(crate) local: IpAddr,
    pub(crate) transport: Transport,
}

/// A call, without its arguments being read.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) xid: u32,
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) procedure: u32,
    pub(crate) credentials: Result<Credentials, auth_stat>,
    /// The whole call, as it came.
    pub(crate) record: Bytes,
    pub(crate) arguments: Bytes,
}

/// Cause for which a record is no call that can be answered by a procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallError {
    /// The record is no call: nothing can be answered.
    NotACall,
    /// The call has another version of the protocol of calls.
    RpcVersion { xid: u32 },
    /// The head of the call is damaged.
    Garbage { xid: u32 },
}

impl Call {
    /// Read the head of a call.
    pub(crate) fn parse(record: Bytes) -> Result<Self, CallError> {
        let mut decoder = Decoder::new(record.clone());
        let (Ok(xid), Ok(0)) = (decoder.number(), decoder.number()) else { return Err(CallError::NotACall) };
        if decoder.number() != Ok(RPC_VERSION_2) {
            return Err(CallError::RpcVersion { xid });
        }
        let head = |decoder: &mut Decoder| {
            let (program, version, procedure) = (decoder.number()?, decoder.number()?, decoder.number()?);
            let credentials = (decoder.number()?, decoder.opaque(MAX_CREDENTIALS)?);
            let _verifier = (decoder.number()?, decoder.opaque(MAX_CREDENTIALS)?);
            Ok::<_, Malformed>((program, version, procedure, credentials))
        };
        let (program, version, procedure, (flavor, body)) =
            head(&mut decoder).map_err(|_| CallError::Garbage { xid })?;
        let credentials = credentials(flavor, body);
        Ok(Self { xid, program, version, procedure, credentials, record, arguments: decoder.into_remaining() })
    }
}

fn credentials(flavor: u32, body: Bytes) -> Result<Credentials, auth_stat> {
    if flavor == auth_flavor::AUTH_NULL as u32 {
        return Ok(Credentials::None);
    }
    if flavor != auth_flavor::AUTH_UNIX as u32 {
        // The client reports that access is denied, and does not ask again.
        return Err(auth_stat::AUTH_TOOWEAK);
    }
    system_credentials(&mut Decoder::new(body)).map_err(|_| auth_stat::AUTH_BADCRED)
}

fn system_credentials(body: &mut Decoder) -> Result<Credentials, Malformed> {
    let (_stamp, _machine) = (body.number()?, body.opaque(MAX_MACHINE_NAME)?);
    let (uid, gid, count) = (body.number()?, body.number()?, body.number()?);
    if count > MAX_GROUPS {
        return Err(Malformed);
    }
    let groups = (0..count).map(|_| body.number()).collect::<Result<_, _>>()?;
    body.end()?;
    Ok(Credentials::System { uid, gid, groups })
}
