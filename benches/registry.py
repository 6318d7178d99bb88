"""The benches that ``make bench`` runs: one entry each, and nothing else to do for a new one.

A script here is called as ``SCRIPT <options> --turn N --json PATH`` for each round N. It writes a ``figures.Result`` to
PATH and ends with status 0, with 1 when something was wrong with what it measured (the result says what), or with
``harness.LEFT_OUT`` when a tool is missing. It uses the command that ``SEQFERRY_COMMAND`` names and the simulator that
``SEQFERRY_S3SIM`` names, where they are given. It needs no cloud, and asserts nothing on speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Bench:
    name: str
    """Name of the section on the page, for ``--only``, and in the result."""
    title: str
    script: str
    proves: str
    cannot: str
    rounds: int
    full: tuple[str, ...] = ()
    """Options of a run that means something."""
    quick: tuple[str, ...] = ()
    """Options of a run that takes seconds and shows only that all of it works."""
    peers: tuple[str, ...] = ()
    """Options that choose the peers: all where there are none."""
    ours: tuple[str, ...] = ()
    """Options that leave the peers out: two builds of Seqferry are compared."""
    builds_simulator: bool = False
    """The simulator is what is measured, so two builds each bring theirs; elsewhere it is the same for both."""


# The AWS CLI takes minutes for 10,000 small files: `make bench-transfer` measures it as well.
_PEERS: Final = ("--only", "seqferry", "--only", "s5cmd", "--only", "rclone", "--only", "crt")

BENCHES: Final = (
    Bench(
        "copy",
        "Copying bucket to bucket, side by side",
        "bench_copy.py",
        proves="What a copy costs the client (CPU, memory) and how long it takes against real S3 servers, beside its "
        "peers: the same data, the same server, every copy verified after the measured time.",
        cannot="The server moves the bytes on the same cores, so wall time is mostly the server's. Nothing here is "
        "AWS, where one copy takes hundreds of milliseconds and limits are those of prefixes.",
        rounds=3,
        full=("--rounds", "1"),
        # One server, so that each client is started three times and not six: most of what a quick run costs.
        quick=(
            *("--server", "versitygw", "--rounds", "1", "--big", "1", "--big-size", "24MiB", "--medium", "4"),
            *("--medium-size", "1MiB", "--small", "40"),
        ),
        ours=("--only", "seqferry"),
    ),
    Bench(
        "copy-simulated",
        "Copying bucket to bucket, with S3's latency",
        "bench_copy.py",
        proves="What each client makes of the times that the model of S3 takes for a request: how many follow one "
        "another, how many are under way, and what that costs. Every copy is verified after the measured time.",
        cannot="It is arithmetic, not AWS: latency and rates follow from the parameters printed here. Client and "
        "simulator share the cores, and there is no network between them.",
        rounds=3,
        full=("--server", "s3sim", "--rounds", "1"),
        quick=(
            *("--server", "s3sim", "--time-scale", "8", "--rounds", "1", "--big", "1", "--big-size", "24MiB"),
            *("--medium", "4", "--medium-size", "1MiB", "--small", "40"),
        ),
        ours=("--only", "seqferry"),
    ),
    Bench(
        "transfer",
        "Files up to S3 and down again, side by side",
        "bench_transfer.py",
        proves="What moving files to and from a real S3 server costs the client (CPU, memory) and how long it takes, "
        "beside its peers: the same files, the same server, every byte that arrived compared after the measured time. "
        "It is what `seqferry bench transfer` does on a user's own bucket.",
        cannot="Server and client share the cores and the disk, so wall time is mostly the server's, and there is no "
        "network: what one is worth on a line, `seqferry bench transfer` tells on that line.",
        rounds=2,
        full=("--server", "versitygw", "--rounds", "1", "--warm-up", "0"),
        peers=_PEERS,
        quick=("--server", "versitygw", "--rounds", "1", "--warm-up", "0", "--quick"),
        ours=("--only", "seqferry"),
    ),
    Bench(
        "transfer-simulated",
        "Files up to S3 and down again, with S3's latency",
        "bench_transfer.py",
        proves="What each client makes of the times that the model of S3 takes for a request: how many it keeps under "
        "way, and what that costs in CPU and memory. Every byte that arrived is compared after the measured time.",
        cannot="It is arithmetic, not AWS: latency and rates follow from the parameters printed here. Client and "
        "simulator share the cores, and there is no network between them.",
        rounds=2,
        # Reading 10,000 objects back takes minutes for each method, since the model's times hold for that as well.
        full=(
            *("--server", "s3sim", "--rounds", "1", "--warm-up", "0"),
            *("--workload", "1x2GiB", "--workload", "20x256MiB", "--workload", "2000x100KiB"),
        ),
        peers=_PEERS,
        quick=("--server", "s3sim", "--rounds", "1", "--warm-up", "0", "--quick"),
        ours=("--only", "seqferry"),
    ),
    Bench(
        "paper",
        "The S3Mirror paper's transfers",
        "bench_paper.py",
        proves="How much of what the model of S3 allows each client takes, with how many requests, at which cost in "
        "dollars and of its own CPU and memory, on the paper's sizes.",
        cannot="It is arithmetic, not AWS: latency, rates and limits follow from the parameters printed "
        "here. Peers run for a sample; their time for the whole is extrapolated from it. Client and simulator "
        "share the cores.",
        rounds=1,
        # Eight of the model's seconds pass in one: it is printed with the model.
        quick=(
            *("--scale", "0.01", "--set-of-data", "table 1", "--set", "time_scale=8"),
            *("--warm-up", "2", "--sample", "3"),
        ),
        ours=("--only", "seqferry"),
    ),
    Bench(
        "million",
        "Many small objects through the durable stack",
        "bench_million.py",
        proves="What one small object costs worker, database and simulator in CPU, how memory behaves, and how long a "
        "status call takes meanwhile. `make bench-million` runs a whole million of them.",
        cannot="Two cores shared by the worker, PostgreSQL and the simulator bound the rate, so objects/s here say "
        "nothing of a machine that S3 does not live on. S3's answers follow from the model.",
        rounds=3,
        full=("--objects", "100000"),
        quick=("--objects", "3000", "--prefixes", "4", "--lax"),
    ),
    Bench(
        "fleet",
        "Many small transfers, and more workers",
        "bench_fleet.py",
        proves="How long 300 small transfers take that are submitted together to one worker, how many submissions of "
        "many clients a server accepts, and how the rate of one transfer grows with 2 and 4 workers while requests in "
        "flight bound it. Every object is compared afterwards.",
        cannot="Workers, server, PostgreSQL and the simulator share two cores. Requests in flight are few, so that "
        "latency bounds the workers: at full width one of them takes what these cores can do.",
        rounds=2,
        full=("--objects", "30000"),
        quick=(
            *("--transfers", "12", "--objects", "400", "--max-requests", "8", "--workers", "1", "--workers", "2"),
            *("--submissions", "40", "--lax"),
        ),
    ),
    Bench(
        "pipelines",
        "Staging many small files for Nextflow",
        "bench_pipelines.py",
        proves="How long a pipeline waits for a folder or a glob of small files: the plugin on real Nextflow, and the "
        "commands that task wrappers call, beside their peers. What arrived is compared after the measured time.",
        cannot="The delay is the same for each reply, and client, proxy and server share the cores. AWS Batch is not "
        "run: only the commands that its tasks call.",
        rounds=2,
        full=("--rounds", "1"),
        quick=("--rounds", "1", "--files", "20", "--delay", "1"),
        ours=("--ours",),
    ),
    Bench(
        "tar",
        "One tar of many objects",
        "bench_tar.py",
        proves="How long it takes to make one archive of many objects, and to unpack it to a folder: Seqferry beside "
        "tar with the AWS CLI or s5cmd. All members are compared with what was stored, after the measured time.",
        cannot="The delay is the same for each reply, and client, proxy and server share the cores. No object is "
        "large enough to be copied inside the storage.",
        rounds=2,
        full=("--rounds", "1"),
        quick=("--rounds", "1", "--objects", "30", "--delay", "1"),
        ours=("--ours",),
    ),
    Bench(
        "mount",
        "A bucket as a folder, side by side",
        "bench_mount.py",
        proves="What ordinary programs wait for on a mounted bucket, and how many requests, bytes, CPU seconds and how "
        "much memory that costs each mount, beside its peers: cold, warm and after a remount, with and without delay. "
        "What was read is compared with what was stored.",
        cannot="The delay is the same for each reply and the relay has no limit of bandwidth, so fetching too much "
        "costs less time here than on a line. Server, relay and mounts share the cores.",
        rounds=2,
        quick=("--quick", "--delay", "0"),
        ours=("--only", "seqferry"),
    ),
    Bench(
        "gateway",
        "A share over NFS, side by side",
        "bench_gateway.py",
        proves="What a client of a share waits for that lists, writes, syncs and reads, the requests of a listing, and "
        "CPU and memory of the server, beside `rclone serve nfs`. What was written is compared in the bucket.",
        cannot="One client with one call at a time; client, share and S3 server share cores and disk. rclone does not "
        "sync what it acknowledges, so its writes do less.",
        rounds=2,
        full=("--rounds", "1"),
        quick=("--rounds", "1", "--quick"),
        ours=("--only", "seqferry"),
    ),
    Bench(
        "simulator",
        "What the simulator itself takes",
        "bench_simulator.py",
        proves="How many requests a second of the simulator's own CPU time serves: whether it is cheap enough not "
        "to be what the simulated benches measure.",
        cannot="Its client only looks for the ends of answers: no S3 client sends at this rate.",
        rounds=5,
        quick=("--seconds", "0.5"),
        builds_simulator=True,
    ),
)
