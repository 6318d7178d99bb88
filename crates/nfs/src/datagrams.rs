//! Calls over UDP: MOUNT and the port mapper. Clients send a call again that was not answered.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::{Call, Client, Transport};
use crate::context::Context;
use crate::dispatch::{refused, reply_to};
use crate::hosts::ClosedConnections;

/// Longest call: a path and credentials.
const MAX_DATAGRAM: usize = 4096;
/// Calls that run at a time. Further ones are dropped.
const MAX_CALLS: usize = 64;

/// Answer datagrams of listed clients until `stop` is cancelled.
pub(crate) async fn serve(socket: UdpSocket, context: Arc<Context>, stop: CancellationToken, tasks: TaskTracker) {
    let (socket, calls) = (Arc::new(socket), Arc::new(Semaphore::new(MAX_CALLS)));
    let mut strangers = ClosedConnections::default();
    let mut buffer = vec![0; MAX_DATAGRAM + 1];
    while let Some(received) = stop.run_until_cancelled(socket.recv_from(&mut buffer)).await {
        // An error is that of an earlier reply, which its client did not take.
        let Ok((length, peer)) = received else {
            tokio::task::yield_now().await;
            continue;
        };
        let address = peer.ip().to_canonical();
        if !context.allows(address) {
            if let Some(count) = strangers.count() {
                tracing::warn!(
                    "calls over UDP are dropped since no share lists their address among its clients: {count}, the \
                     last of {address}"
                );
            }
            continue;
        }
        let Some(datagram) = buffer.get(..length).filter(|_| length <= MAX_DATAGRAM) else { continue };
        let Ok(permit) = Arc::clone(&calls).try_acquire_owned() else { continue };
        let (call, context, socket) = (Call::parse(Bytes::copy_from_slice(datagram)), context.clone(), socket.clone());
        tasks.spawn(async move {
            let reply = match call {
                Ok(call) => {
                    let client =
                        Client { address, local: local_address(&socket, peer).await, transport: Transport::Udp };
                    Some(reply_to(&context, client, &call).await)
                }
                Err(error) => refused(error),
            };
            if let Some(reply) = reply {
                // Clients send the call of a lost reply again.
                let _sent = socket.send_to(&reply.to_datagram(), peer).await;
            }
            drop(permit);
        });
    }
}

/// The address that a client calls. A socket of all addresses does not tell: the one by which the client is reached.
async fn local_address(socket: &UdpSocket, peer: SocketAddr) -> IpAddr {
    let bound = socket.local_addr().map_or(peer.ip(), |bound| bound.ip());
    if !bound.is_unspecified() {
        return bound;
    }
    let route = async {
        let probe = UdpSocket::bind(SocketAddr::new(bound, 0)).await?;
        probe.connect(peer).await?;
        probe.local_addr()
    };
    route.await.map_or(bound, |local| local.ip())
}
