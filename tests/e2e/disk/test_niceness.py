"""``--max-bandwidth`` on a link that is shared with others: they get the rest of it."""

from __future__ import annotations

import contextlib
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.buckets import MIB
from support.links import Link, link_or_skip
from support.mover import SMALL_PARTS, Mover
from support.processes import RunningProcess
from support.proxy import Proxy
from support.servers import S3Server
from support.waiting import eventually

MB = 1_000_000
LINK = 20 * MB
LIMIT = 2 * MB
SIZE = 15 * MIB
PART = 5 * MIB

# Sends to an address as fast as the link takes it, until it is ended.
SENDER = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as to:
    while True:
        to.sendall(bytes(65536))
"""


@pytest.fixture
def link() -> Iterator[Link]:
    yield from link_or_skip(LINK)


@dataclass
class Sink:
    """Takes what another program sends, and counts it."""

    listening: socket.socket
    received: int = 0
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self.listening.getsockname()[1]

    def _take(self) -> None:
        with contextlib.suppress(OSError), self.listening.accept()[0] as connection:
            while taken := len(connection.recv(MIB)):
                self.received += taken

    def close(self) -> None:
        self.listening.close()
        self._thread.join(10)


def test_a_limited_upload_leaves_the_rest_of_a_link_to_others(
    versitygw: S3Server, make_bucket: Callable[..., str], link: Link, rng: random.Random, tmp_path: Path
) -> None:
    bucket = make_bucket(versitygw)
    (tmp_path / "file").write_bytes(rng.randbytes(SIZE))
    with contextlib.ExitStack() as ending:
        proxy = ending.enter_context(Proxy(versitygw, address=link.address))
        sink = Sink(socket.create_server((link.address, 0)))
        ending.callback(sink.close)
        sender = [*link.within, sys.executable, "-c", SENDER, link.address, str(sink.port)]
        other = ending.enter_context(RunningProcess(sender))
        eventually(lambda: sink.received > MB, what="the other flow")
        mover = ending.enter_context(Mover(proxy.server, tmp_path / "state", within=link.within))
        upload = mover.start("cp", f"{tmp_path}/file", f"s3://{bucket}/", *SMALL_PARTS, "--max-bandwidth", "2MB/s")

        proxy.wait_requested("UploadPart", 1)
        begun, before, others = time.monotonic(), link.passed, sink.received
        proxy.wait_succeeded("UploadPart", SIZE // PART)
        seconds, passed, by_others = time.monotonic() - begun, link.passed - before, sink.received - others
        assert upload.wait() == 0, str(upload)
        assert other.running, str(other)

    ours = passed - by_others
    said = f"{seconds:.1f} s: {passed / MB:.1f} MB passed, {by_others / MB:.1f} MB of them of others"
    # All of it, but for what had come before the count began; and at no time faster than the limit allows: parts do not
    # go at once, each of which is 2.5 s of the limit. Headers and what is sent again: a tenth.
    assert ours >= 0.8 * SIZE, said
    assert ours <= 1.1 * LIMIT * seconds + MIB, said
    assert passed <= 1.1 * LINK * seconds + LINK, f"the link is not shaped: {said}"
    # Most of what we leave is used: 18 MB/s are to be had.
    assert by_others >= 0.5 * (LINK - LIMIT) * seconds, said
    assert versitygw.client().get_object(Bucket=bucket, Key="file")["Body"].read() == (tmp_path / "file").read_bytes()
