//! One connection: calls are read while there is space for them, run concurrently, and answered as they end.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::call::{Call, Client, Transport};
use crate::context::Context;
use crate::dispatch::{refused, reply_to};
use crate::hosts::AdmittedConnection;
use crate::procedures::{self, MAX_TRANSFER, OVERHEAD};
use crate::record::{RecordError, RecordReader, RecordStart};
use crate::reply::Reply;

/// Longest record: the largest write and its head.
const MAX_RECORD: u32 = MAX_TRANSFER + OVERHEAD;
/// Memory is counted in kilobytes.
const UNIT: u32 = 1 << 10;
/// Memory that is reserved before a record is read: it may be the largest write, or ask for the largest read.
pub(crate) const RESERVED: u32 = (MAX_RECORD + OVERHEAD).div_ceil(UNIT);
/// Time in which a record that has begun must be there, and a reply must be taken: this, and 10 kB/s.
const STALL_TIME: Duration = Duration::from_secs(15);
const MIN_BYTES_PER_SECOND: u64 = 10 << 10;

/// Memory and time that connections may use.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Kilobytes of one connection.
    pub(crate) connection_memory: usize,
    /// Kilobytes of all connections.
    pub(crate) memory: Arc<Semaphore>,
    /// Time without any call after which a connection is closed.
    pub(crate) idle: Duration,
}

/// Room that a call occupies until its reply is written.
struct CallPermits {
    _call: OwnedSemaphorePermit,
    _host_call: OwnedSemaphorePermit,
    connection: OwnedSemaphorePermit,
    host: OwnedSemaphorePermit,
    process: OwnedSemaphorePermit,
}

/// Time for this many bytes.
fn time_limit(bytes: u64) -> Duration {
    STALL_TIME + Duration::from_secs(bytes / MIN_BYTES_PER_SECOND)
}

struct QueuedReply {
    reply: Reply,
    _permits: CallPermits,
}

/// Serve a connection until the client closes it, it fails, it is idle for too long, or the server stops.
pub(crate) async fn serve(
    stream: TcpStream,
    admitted: AdmittedConnection,
    context: Arc<Context>,
    limits: Arc<Limits>,
    tasks: TaskTracker,
) {
    let address = admitted.address;
    // Without one the connection has ended already.
    let local = stream.local_addr().map_or(address, |local| local.ip());
    let client = Client { address, local, transport: Transport::Tcp };
    let (reading, writing) = stream.into_split();
    let (replies, answered) = mpsc::channel(admitted.calls.available_permits().max(1));
    // Calls under way end when their replies cannot be written; a writer that has failed ends the reading.
    let is_over = admitted.close.clone();
    let over = is_over.clone();
    let writer = tasks.spawn(async move {
        if let Err(error) = write_replies(writing, answered).await {
            tracing::debug!("connection of {address}: {error}");
        }
        over.cancel();
    });
    let mut reader = RecordReader::new(reading, MAX_RECORD as usize);
    let memory = Arc::new(Semaphore::new(limits.connection_memory));
    let requests = RequestReader { reader: &mut reader, admitted: &admitted, memory, limits: &limits };
    let read = tokio::select! {
        biased;
        () = is_over.cancelled() => Ok(()),
        read = requests.read(|record, permits| {
            let (context, replies) = (Arc::clone(&context), replies.clone());
            match Call::parse(record) {
                Ok(call) => {
                    let permits = permits.shrunk_to(procedures::footprint(&call));
                    tasks.spawn(async move {
                        let reply = reply_to(&context, client, &call).await;
                        let _closed = replies.send(QueuedReply { reply, _permits: permits }).await;
                    });
                }
                Err(error) => {
                    let Some(reply) = refused(error) else { return false };
                    tasks.spawn(async move { replies.send(QueuedReply { reply, _permits: permits }).await.is_ok() });
                }
            }
            true
        }) => read,
    };
    if let Err(error) = read {
        tracing::debug!("connection of {address}: {error}");
    }
    drop(replies);
    // The connection counts until its last reply is written.
    let _ended = writer.await;
}

/// Reads the records of a connection while there is space for them.
struct RequestReader<'a, R> {
    reader: &'a mut RecordReader<R>,
    admitted: &'a AdmittedConnection,
    memory: Arc<Semaphore>,
    limits: &'a Limits,
}

impl<R: tokio::io::AsyncRead + Unpin> RequestReader<'_, R> {
    /// Hand each record on with its room, until the last one or until one is not wanted.
    async fn read(mut self, mut take: impl FnMut(Bytes, CallPermits) -> bool) -> Result<(), RecordError> {
        while let Some(start) = self.start().await? {
            self.admitted.touch();
            let permits = self.reserve().await?;
            let time_limit = time_limit(start.announced());
            let record = timeout(time_limit, self.reader.finish(start)).await.map_err(io::Error::from)??;
            if !take(record, permits) {
                break;
            }
        }
        Ok(())
    }

    /// Wait for the next record. None: the client has closed the connection, or has sent no call for too long.
    async fn start(&mut self) -> Result<Option<RecordStart>, RecordError> {
        let mut started = pin!(self.reader.start());
        loop {
            match timeout(self.limits.idle, &mut started).await {
                Ok(started) => return started,
                Err(_) if self.admitted.is_idle() => return Ok(None),
                // Clients wait for calls that take long.
                Err(_) => {}
            }
        }
    }

    /// Wait for the room of a call. All of it is taken in one step: calls that each hold a part would wait for each
    /// other.
    async fn reserve(&self) -> Result<CallPermits, RecordError> {
        let closed = |_| io::Error::from(io::ErrorKind::ConnectionAborted);
        let kilobytes =
            async |memory: &Arc<Semaphore>| Arc::clone(memory).acquire_many_owned(RESERVED).await.map_err(closed);
        Ok(CallPermits {
            _call: Arc::clone(&self.admitted.calls).acquire_owned().await.map_err(closed)?,
            _host_call: Arc::clone(&self.admitted.host_calls).acquire_owned().await.map_err(closed)?,
            connection: kilobytes(&self.memory).await?,
            host: kilobytes(&self.admitted.memory).await?,
            process: kilobytes(&self.limits.memory).await?,
        })
    }
}

impl CallPermits {
    /// Give back what this many bytes do not need.
    fn shrunk_to(mut self, bytes: u32) -> Self {
        let needed = bytes.div_ceil(UNIT) as usize;
        for permits in [&mut self.connection, &mut self.host, &mut self.process] {
            drop(permits.split(permits.num_permits().saturating_sub(needed)));
        }
        self
    }
}

/// Write replies in the order in which they come, without copying them.
async fn write_replies(mut stream: OwnedWriteHalf, mut replies: mpsc::Receiver<QueuedReply>) -> io::Result<()> {
    while let Some(reply_to) = replies.recv().await {
        let time_limit = time_limit(reply_to.reply.parts.iter().map(|part| part.len() as u64).sum());
        timeout(time_limit, write_parts(&mut stream, reply_to.reply.parts.into())).await??;
    }
    stream.shutdown().await
}

async fn write_parts(stream: &mut OwnedWriteHalf, mut parts: VecDeque<Bytes>) -> io::Result<()> {
    /// Parts of one system call, as the kernel limits them.
    const MAX_PARTS: usize = 64;
    while !parts.is_empty() {
        let written = {
            let slices: Vec<IoSlice<'_>> = parts.iter().take(MAX_PARTS).map(|part| IoSlice::new(part)).collect();
            stream.write_vectored(&slices).await?
        };
        let mut left = written;
        while let Some(first) = parts.front_mut() {
            let taken = left.min(first.len());
            first.advance(taken);
            left -= taken;
            if !first.is_empty() {
                break;
            }
            parts.pop_front();
        }
        if written == 0 && !parts.is_empty() {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}
