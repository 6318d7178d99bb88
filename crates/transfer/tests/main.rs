//! Tests of jobs. One program, since each links all that a job is made of; those with a subscriber of traces have their own.

mod common;
mod copying;
mod digests;
mod disks;
mod faults;
mod hedging;
mod leases;
mod pack;
mod resume;
mod streaming;
mod turns;
mod unpack;
