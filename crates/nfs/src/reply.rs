//! Replies: a head of our own and the bytes of the share, written without being copied.

use bytes::Bytes;
use nfs3_types::nfs3::nfsstat3;
use nfs3_types::rpc::{accept_stat_data, accepted_reply, fragment_header, opaque_auth, rejected_reply, reply_body};
use nfs3_types::rpc::{msg_body, rpc_msg};
use nfs3_types::xdr_codec::Pack;

static ZEROS: [u8; 3] = [0; 3];
/// Length of the mark before a record.
const MARK: usize = 4;

/// Result of a procedure.
#[derive(Debug)]
pub(crate) struct Payload {
    head: Vec<u8>,
    slices: Vec<Bytes>,
    /// The same call that comes again gets this result. False: nothing was done, and it is tried again.
    pub(crate) is_final: bool,
}

impl Payload {
    /// A value without a status before it.
    pub(crate) fn plain(value: &impl Pack) -> Self {
        Self { head: packed(value), slices: Vec::new(), is_final: true }
    }

    /// A value after the status of success.
    pub(crate) fn succeeded(value: &impl Pack) -> Self {
        let mut head = packed(&nfsstat3::NFS3_OK);
        head.extend(packed(value));
        Self { head, slices: Vec::new(), is_final: true }
    }

    /// A value after the status of a failure.
    pub(crate) fn failed(status: nfsstat3, value: &impl Pack) -> Self {
        let mut head = packed(&status);
        head.extend(packed(value));
        Self { head, slices: Vec::new(), is_final: status != nfsstat3::NFS3ERR_JUKEBOX }
    }

    /// Bytes that end the result, with their padding; their length is in the head already.
    pub(crate) fn with_bytes(mut self, slices: Vec<Bytes>) -> Self {
        let length: usize = slices.iter().map(Bytes::len).sum();
        let padding = length.next_multiple_of(4) - length;
        self.slices = slices;
        if padding > 0 {
            self.slices.push(Bytes::from_static(&ZEROS[..padding]));
        }
        self
    }
}

/// A whole reply as a record.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) parts: Vec<Bytes>,
}

impl Reply {
    /// The result of a procedure.
    pub(crate) fn accepted(xid: u32, payload: Payload) -> Self {
        let mut parts = payload.slices;
        parts.insert(0, Bytes::from(payload.head));
        Self::record(xid, reply_body::MSG_ACCEPTED(accepted(accept_stat_data::SUCCESS)), parts)
    }

    /// A call that reached no procedure.
    pub(crate) fn unserved(xid: u32, status: accept_stat_data) -> Self {
        Self::record(xid, reply_body::MSG_ACCEPTED(accepted(status)), Vec::new())
    }

    /// A call of another version, or without proper credentials.
    pub(crate) fn denied(xid: u32, cause: rejected_reply) -> Self {
        Self::record(xid, reply_body::MSG_DENIED(cause), Vec::new())
    }

    /// The reply as a datagram, which has no mark of a record.
    pub(crate) fn to_datagram(&self) -> Vec<u8> {
        let record = self.parts.concat();
        record.get(MARK..).unwrap_or_default().to_vec()
    }

    fn record(xid: u32, body: reply_body<'static>, mut parts: Vec<Bytes>) -> Self {
        let message = packed(&rpc_msg { xid, body: msg_body::REPLY(body) });
        let length = message.len() + parts.iter().map(Bytes::len).sum::<usize>();
        // Bounded by the largest transfer, far below the two gigabytes of a record.
        let mark = fragment_header::new(u32::try_from(length).unwrap_or(fragment_header::MASK), true);
        let mut head = mark.into_xdr_buf().to_vec();
        head.extend(message);
        parts.insert(0, Bytes::from(head));
        Self { parts }
    }
}

fn accepted(status: accept_stat_data) -> accepted_reply<'static> {
    accepted_reply { verf: opaque_auth::default(), reply_data: status }
}

/// The bytes of a value.
pub(crate) fn packed(value: &impl Pack) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.packed_size());
    // Writing to memory does not fail, and all lengths are below four gigabytes.
    let written = value.pack(&mut bytes);
    debug_assert!(written.is_ok());
    bytes
}
