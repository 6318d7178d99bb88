//! Tests of jobs, in one program, since each program links all that a job is made of. Tests with a subscriber of traces
//! have their own.

mod changes;
mod common;
mod copying;
mod digests;
mod disks;
mod etags;
mod fair_queue;
mod faults;
mod growing;
mod hedging;
mod histories;
mod leases;
mod missing_features;
mod open_uploads;
mod pack;
mod pack_servers;
mod pack_verification;
mod removals;
mod resume;
mod stream_faults;
mod stream_verification;
mod streaming;
mod unclear;
mod unpack;
mod verifications;
