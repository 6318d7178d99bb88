"""A long file that is written to a share at the rate of an instrument: when it is in the bucket after its last byte.

``make bench-gateway-long`` serves a bucket of the simulator with a limit of bandwidth in place of a line. A client
(libnfs) writes a file at a steady rate, as ``NAME.tmp``, closes and renames it. It prints the seconds from the close to
the whole object in the bucket, the requests, and the memory of the gateway; the object is compared afterwards. With
``--kill`` the gateway is killed by SIGKILL half-way and started again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from harness import Memory  # noqa: E402
from support.gateways import WrittenShares, missing_libnfs, written_share  # noqa: E402
from support.libnfs import Share  # noqa: E402
from support.servers import S3Server  # noqa: E402
from support.sim import Simulator  # noqa: E402

MB: Final = 1_000_000
PIECE: Final = 1 << 20
AHEAD: Final = 16 << 20
STREAMS: Final = 6
AIM_SECONDS: Final = 60.0


def _source(client: Any, size: int) -> Iterator[bytes]:
    """The bytes of the source object, read ahead: one connection is slower than the writer."""

    def read(start: int) -> bytes:
        wanted = f"bytes={start}-{min(start + AHEAD, size) - 1}"
        return client.get_object(Bucket="lab", Key="source/run.bcl", Range=wanted)["Body"].read()

    with ThreadPoolExecutor(STREAMS) as pool:
        reads: deque[Future[bytes]] = deque()
        for start in range(0, size, AHEAD):
            reads.append(pool.submit(read, start))
            if len(reads) > STREAMS:
                yield from _pieces(reads.popleft().result())
        for rest in reads:
            yield from _pieces(rest.result())


def _pieces(body: bytes) -> Iterator[bytes]:
    return (body[start : start + PIECE] for start in range(0, len(body), PIECE))


def _write(shares: WrittenShares, client: Any, size: int, rate: float, kill: bool) -> float:
    """Write the file. Returns the time at which it was closed, in seconds of the monotonic clock."""
    share = Share(shares.url("runs", uid=0))
    file = share.create("run.tmp")
    began, written = time.monotonic(), 0
    for piece in _source(client, size):
        if kill and written >= size // 2:
            share.sync(file)
            shares.restart()
            kill, began = False, time.monotonic() - written / rate
        share.write_at(file, written, piece)
        written += len(piece)
        time.sleep(max(began + written / rate - time.monotonic(), 0))
    print(f"{size / MB:,.0f} MB written in {time.monotonic() - began:.0f} s", flush=True)
    share.sync(file)
    share.close(file)
    closed = time.monotonic()
    share.rename("run.tmp", "run.bcl")
    return closed


def main() -> int:
    """Run it. 1: the object is not what was written."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=20_000, metavar="MB")
    parser.add_argument("--rate", type=int, default=200, metavar="MB", help="written in a second")
    parser.add_argument("--line", type=int, default=250, metavar="MB", help="sent in a second at most")
    parser.add_argument("--kill", action="store_true", help="kill the gateway half-way")
    arguments = parser.parse_args()
    if (missing := missing_libnfs()) is not None:
        sys.exit(missing)
    size = arguments.size * MB
    objects = [{"keys": "source/run.bcl", "count": 1, "size": size}]
    bucket = f"lab={json.dumps({'objects': objects})}"
    with Simulator("--bucket", bucket) as simulator, tempfile.TemporaryDirectory() as name:
        os.environ.update(simulator.environment())
        server = S3Server("versitygw", simulator.environment()["AWS_ENDPOINT_URL"])
        config = written_share("runs", "s3://lab/runs/") + f'max_bandwidth = "{arguments.line}MB/s"\n'
        shares, client = WrittenShares(Path(name), server, config), simulator.client()
        memory = Memory(shares.process.pid)
        try:
            closed = _write(shares, client, size, arguments.rate * MB, arguments.kill)
            while not client.list_objects_v2(Bucket="lab", Prefix="runs/run.bcl").get("Contents"):
                time.sleep(0.1)
            took = time.monotonic() - closed
            memory.end()
            met = "met" if took <= AIM_SECONDS else "missed"
            print(f"in the bucket {took:.1f} s after it was closed, the aim of {AIM_SECONDS:g} is {met}")
            print(f"memory: {memory}")
            print({name: counts["requests"] for name, counts in simulator.stats()["operations"].items()})
            while len(client.list_objects_v2(Bucket="lab", Prefix="runs/")["Contents"]) > 2:
                time.sleep(0.1)
            uploads = client.list_multipart_uploads(Bucket="lab").get("Uploads", [])
            found = simulator.check("lab/source/", "lab/runs/")
            print(f"compared: {found}; {len(uploads)} open uploads")
            return int(found["same"] != 1 or bool(uploads))
        finally:
            shares.close()


if __name__ == "__main__":
    sys.exit(main())
