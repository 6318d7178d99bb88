//! `NFSv3` (RFC 1813) and its MOUNT protocol over TCP, without any file logic. MOUNT and the port mapper (RFC 1833)
//! are answered over UDP as well.
//!
//! [`Server`] reads calls, finds the export of a handle, checks the client and hands the call to a
//! [`Share`](seqferry_share::Share). All state of files is in the share; this crate keeps handles, replies to calls that may
//! come again, and the list of mounts.
//!
//! - A record is bounded before memory is allocated for it, and a connection stops reading when its share of calls or
//!   bytes is in use. No call is refused because there are many.
//! - An address on no list of clients is closed when it connects. A host has a part of the connections and of the
//!   memory alone, and a connection without calls is closed after a while.
//! - A handle is signed with a key that outlives the process: it stays valid after a restart and cannot be guessed.
//! - The reply to a call that changes something is kept: a call that is sent again is answered and not run again.

mod call;
mod clients;
mod connection;
mod context;
mod datagrams;
mod dispatch;
mod error;
mod export;
mod handle;
mod hosts;
mod key;
mod mount;
mod mount_table;
mod port_map;
mod procedures;
mod record;
mod reply;
mod reply_cache;
mod rpcbind;
mod server;
mod xdr;

pub use clients::{ClientList, Squash};
pub use error::ServerError;
pub use export::{Export, ExportSpec};
pub use key::HandleKey;
pub use server::{PortMapping, Published, Server, ServerLimits};
