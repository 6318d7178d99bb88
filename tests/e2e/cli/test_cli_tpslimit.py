"""``--tpslimit``: requests started per second, as the storage sees them."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from cli_process import Cli, Places, id_of

from support.proxy import Proxy
from support.servers import S3Server
from support.waiting import eventually

RATE = 10
DELAY_SECONDS = 1.0
"""A request reaches the proxy later than it starts, on a busy machine by a different time each."""


def _starts(proxy: Proxy) -> list[float]:
    proxy.wait_idle()
    return sorted(record.started for record in proxy.log())


def _fits(starts: list[float], rate: int) -> bool:
    """True when no window holds more starts than the rate, the documented burst (5 ms) and one more."""
    return all(
        last - first + 1 <= rate * (starts[last] - starts[first] + 0.005 + DELAY_SECONDS) + 1
        for first in range(len(starts))
        for last in range(first, len(starts))
    )


@pytest.mark.long
def test_no_window_has_more_requests_than_the_limit(
    cli: Cli, places: Places, make_proxy: Callable[[S3Server], Proxy]
) -> None:
    names = [f"{number:02d}" for number in range(40)]
    content = places.fill(names)
    proxy = make_proxy(places.server)
    cli.server = proxy.server

    ran = cli.run("cp", *places.uris, "--tpslimit", str(RATE))

    assert ran.code == 0, ran.err
    assert places.content() == content
    limited = _starts(proxy)
    assert len(limited) > len(names)
    assert _fits(limited, RATE)

    # A worker heeds what is on record, and has no limit of its own.
    source, target = places.uris
    transfer_id = cli.run("cp", source, f"{target}again/", "--detach", "--tpslimit", str(RATE)).out.strip()
    worker = cli.start("worker")
    eventually(lambda: cli.status(transfer_id)["state"] == "done", what="the end of the transfer", deadline=120)
    assert cli.status(transfer_id)["tpslimit"] == RATE
    worker.signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert _fits(_starts(proxy), RATE)


def test_a_limit_that_is_set_under_way_frees_what_waits(cli: Cli, seaweedfs_places: Places) -> None:
    names = [f"{number:03d}" for number in range(300)]
    seaweedfs_places.fill(names)
    process = cli.start("cp", *seaweedfs_places.uris, "--tpslimit", "1")
    transfer_id = id_of(process)

    # At one request per second it takes five minutes.
    assert cli.run("set", transfer_id, "--tpslimit", "5000").code == 0

    assert process.wait(120) == 0, str(process)
    assert set(seaweedfs_places.content()) == set(names)
    assert cli.status(transfer_id)["tpslimit"] == 5000
