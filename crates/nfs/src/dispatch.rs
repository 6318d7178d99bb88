//! Dispatch of a call to a procedure of its program, whichever way it came.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use nfs3_types::mount::{self, MOUNT_PROGRAM};
use nfs3_types::nfs3::{self, NFS_PROGRAM};
use nfs3_types::portmap;
use nfs3_types::rpc::{RPC_VERSION_2, accept_stat_data, auth_stat, rejected_reply};

use crate::call::{Call, CallError, Client, Credentials, Transport};
use crate::context::{Context, Peer};
use crate::port_map::{self, PortMapCall};
use crate::procedures;
use crate::reply::Reply;
use crate::reply_cache::CacheLookup;
use crate::xdr::Malformed;

/// The reply to a record that is no proper call. None: there is nothing to reply to.
pub(crate) fn refused(error: CallError) -> Option<Reply> {
    match error {
        CallError::RpcVersion { xid } => {
            Some(Reply::denied(xid, rejected_reply::rpc_mismatch(RPC_VERSION_2, RPC_VERSION_2)))
        }
        CallError::Garbage { xid } => Some(Reply::unserved(xid, accept_stat_data::GARBAGE_ARGS)),
        CallError::NotACall => None,
    }
}

/// A procedure of one of our programs.
#[derive(Debug, Clone, Copy)]
enum Procedure {
    Nfs(NFS_PROGRAM),
    Mount(MOUNT_PROGRAM),
    PortMap(PortMapCall),
}

fn procedure(context: &Context, transport: Transport, call: &Call) -> Result<Procedure, accept_stat_data> {
    let (low, high) = match call.program {
        nfs3::PROGRAM if transport == Transport::Tcp => (nfs3::VERSION, nfs3::VERSION),
        mount::PROGRAM => (mount::VERSION, mount::VERSION),
        portmap::PROGRAM if context.port_map.is_some() => port_map::VERSIONS,
        _ => return Err(accept_stat_data::PROG_UNAVAIL),
    };
    if !(low..=high).contains(&call.version) {
        return Err(accept_stat_data::PROG_MISMATCH { low, high });
    }
    let found = match call.program {
        nfs3::PROGRAM => NFS_PROGRAM::try_from(call.procedure).ok().map(Procedure::Nfs),
        mount::PROGRAM => MOUNT_PROGRAM::try_from(call.procedure).ok().map(Procedure::Mount),
        _ => PortMapCall::parse(call.version, call.procedure).map(Procedure::PortMap),
    };
    let found = found.filter(|procedure| transport == Transport::Tcp || has_short_reply(*procedure));
    found.ok_or(accept_stat_data::PROC_UNAVAIL)
}

/// True for replies of about the length of the call. The source of a datagram can be forged: a longer reply would
/// multiply what is sent to another machine.
const fn has_short_reply(procedure: Procedure) -> bool {
    match procedure {
        Procedure::Nfs(_) => false,
        Procedure::Mount(procedure) => {
            !matches!(procedure, MOUNT_PROGRAM::MOUNTPROC3_DUMP | MOUNT_PROGRAM::MOUNTPROC3_EXPORT)
        }
        Procedure::PortMap(procedure) => !matches!(procedure, PortMapCall::Dump | PortMapCall::DumpAddresses),
    }
}

/// Run a call, or find the reply to it.
pub(crate) async fn reply_to(context: &Context, client: Client, call: &Call) -> Reply {
    let procedure = match procedure(context, client.transport, call) {
        Ok(procedure) => procedure,
        Err(status) => return Reply::unserved(call.xid, status),
    };
    let is_null = call.procedure == 0;
    let credentials = match &call.credentials {
        Ok(credentials) => credentials,
        // Each client may call the procedure NULL.
        Err(_) if is_null => &Credentials::None,
        Err(cause) => return denied(call.xid, *cause),
    };
    let peer = Peer { address: client.address, credentials };
    let cached_kind = match procedure {
        Procedure::Nfs(procedure) => procedures::cached_kind(procedure),
        Procedure::Mount(_) | Procedure::PortMap(_) => None,
    };
    let Some(kind) = cached_kind else { return run(context, client, peer, procedure, call).await.0 };
    match context.replies.begin(client.address, call, kind).await {
        CacheLookup::Answered(reply) => reply,
        CacheLookup::New(running) => {
            let (reply, is_final) = run(context, client, peer, procedure, call).await;
            if is_final {
                running.answered(&reply);
            }
            reply
        }
    }
}

fn denied(xid: u32, cause: auth_stat) -> Reply {
    Reply::denied(xid, rejected_reply::auth_error(cause))
}

/// Run a procedure. The second value is true when the same call, coming again, gets this reply.
async fn run(context: &Context, client: Client, peer: Peer<'_>, procedure: Procedure, call: &Call) -> (Reply, bool) {
    let arguments = call.arguments.clone();
    let result = AssertUnwindSafe(async {
        match procedure {
            Procedure::Nfs(procedure) => procedures::run(context, peer, procedure, arguments).await,
            Procedure::Mount(procedure) => crate::mount::run(context, peer, procedure, arguments).await,
            Procedure::PortMap(procedure) => match &context.port_map {
                Some(map) => port_map::run(map, client, procedure, arguments),
                None => Err(Malformed),
            },
        }
    });
    match result.catch_unwind().await {
        Ok(Ok(payload)) => {
            let is_final = payload.is_final;
            (Reply::accepted(call.xid, payload), is_final)
        }
        Ok(Err(Malformed)) => (Reply::unserved(call.xid, accept_stat_data::GARBAGE_ARGS), true),
        // A defect of the share: the panic hook has logged where it happened, and other calls continue.
        Err(_panic) => (Reply::unserved(call.xid, accept_stat_data::SYSTEM_ERR), false),
    }
}
