"""A network link of known speed: a network namespace behind a pair of interfaces, shaped on the way out of it."""

from __future__ import annotations

import random
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


class NoLinkError(Exception):
    """Links cannot be made here; the text says why."""


@dataclass(frozen=True, slots=True)
class Link:
    """What is sent from within the namespace to ``address`` passes at ``bytes_per_second`` at most."""

    namespace: str
    address: str
    """Address of this machine as seen from the namespace: servers listen here."""
    bytes_per_second: int
    _interface: str

    @property
    def within(self) -> tuple[str, ...]:
        """Words before a command that run it in the namespace."""
        return "ip", "netns", "exec", self.namespace

    @property
    def passed(self) -> int:
        """Bytes that came through, headers of all layers included."""
        return int(Path(f"/sys/class/net/{self._interface}/statistics/rx_bytes").read_text())


@contextmanager
def shaped_link(bytes_per_second: int) -> Iterator[Link]:
    """A link that is gone at the end of the block, with all that it was made of.

    Raises:
        NoLinkError: this user or this system may not make one.
    """
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            raise NoLinkError(f"{tool} is not installed (Debian: apt-get install iproute2)")
    name = uuid.uuid4().hex[:8]
    namespace, outer, inner = f"seqferry-{name}", f"sfo{name}", f"sfi{name}"
    # Of a range that is kept for measurements between networks.
    network = random.SystemRandom().randrange(2**15) * 4
    here, there = (f"198.{18 + (network >> 16)}.{network >> 8 & 255}.{(network & 255) + host}" for host in (1, 2))
    _ip("netns", "add", namespace)
    try:
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", namespace)
        _ip("addr", "add", f"{here}/30", "dev", outer)
        _ip("link", "set", outer, "up")
        _ip("-n", namespace, "addr", "add", f"{there}/30", "dev", inner)
        for interface in ("lo", inner):
            _ip("-n", namespace, "link", "set", interface, "up")
        # A tenth of a second's bytes at once, and as much again waiting: what flows take turns in.
        size = str(bytes_per_second // 10)
        shape = ("root", "tbf", "rate", f"{bytes_per_second}bps", "burst", size, "limit", size)
        _done("tc", "-n", namespace, "qdisc", "add", "dev", inner, *shape)
        yield Link(namespace, here, bytes_per_second, outer)
    finally:
        # The interfaces go with it.
        _ip("netns", "del", namespace)


def link_or_skip(bytes_per_second: int) -> Iterator[Link]:
    """A link for a fixture; the test is skipped, with the reason, where none can be made."""
    try:
        with shaped_link(bytes_per_second) as made:
            yield made
    except NoLinkError as why:
        pytest.skip(f"a link needs network namespaces and tc: {why}")


def _ip(*arguments: str) -> None:
    _done("ip", *arguments)


def _done(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise NoLinkError(f"`{' '.join(command)}` failed: {ended.stderr.strip()}")
