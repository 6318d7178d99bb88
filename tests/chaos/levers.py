"""The levers: how each kind of fault is begun and healed. See ``schedule.KINDS``."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, Protocol

import psycopg

from chaos.schedule import Fault
from chaos.shares.world import ShareWorld
from chaos.world import WorkerHost, World
from support import proxy as storage
from support.postgres import frozen_server
from support.relay import Relay

Lever = Callable[[Any, Fault], contextlib.AbstractContextManager[object]]
"""Begins a fault in a world; the end of its block heals it. What takes no time is done when the block begins.

Levers of storages work in a world of workers and in one of shares."""


class StoredWorld(Protocol):
    """A world with an S3 server behind a relay and a proxy."""

    proxy: storage.Proxy
    storage_relay: Relay


_LEVERS: dict[str, Lever] = {}
_CHANGES: Final = (
    "PutObject", "CopyObject", "CreateMultipartUpload", "UploadPart", "UploadPartCopy", "CompleteMultipartUpload",
    "AbortMultipartUpload", "DeleteObject", "DeleteObjects",
)  # fmt: skip
IN_FLIGHT: Final[dict[str, tuple[str, ...]]] = {
    "copy-in-flight": ("CopyObject", "PutObject"),
    "part-in-flight": ("UploadPart", "UploadPartCopy"),
    "complete-in-flight": ("CompleteMultipartUpload",),
    "delete-in-flight": ("DeleteObject", "DeleteObjects"),
}
"""States that a fault may wait for, as requests that the proxy has in flight."""


def lever(kind: str) -> Lever:
    return _LEVERS[kind]


def kinds() -> frozenset[str]:
    return frozenset(_LEVERS)


def _lever(*names: str) -> Callable[[Callable[[Any, Fault], Generator[None]]], None]:
    def add(act: Callable[[Any, Fault], Generator[None]]) -> None:
        for name in names:
            _LEVERS[name] = contextmanager(act)

    return add


def _worker(world: World, fault: Fault) -> WorkerHost:
    return next(one for one in world.workers if one.name == fault.who)


# --- workers ----------------------------------------------------------------------------------------------------------


@_lever("worker.kill")
def _(world: World, fault: Fault) -> Generator[None]:
    worker = _worker(world, fault)
    world.on_kill(worker.pid, time.time())
    worker.kill(pause=4.0 * fault.value)
    yield


@_lever("worker.term")
def _(world: World, fault: Fault) -> Generator[None]:
    _worker(world, fault).signal(signal.SIGTERM)
    yield


@_lever("worker.freeze", "worker.freeze-long")
def _(world: World, fault: Fault) -> Generator[None]:
    worker = _worker(world, fault)
    worker.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        worker.signal(signal.SIGCONT)


@_lever("worker.partition")
def _(world: World, fault: Fault) -> Generator[None]:
    relay = _worker(world, fault).relay
    relay.silence()
    try:
        yield
    finally:
        relay.resume()


@_lever("worker.cut")
def _(world: World, fault: Fault) -> Generator[None]:
    _worker(world, fault).relay.cut()
    yield


@_lever("worker.clock")
def _(world: World, fault: Fault) -> Generator[None]:
    clock = _worker(world, fault).clock
    clock.move(0.0 if clock.shift else fault.value)
    yield


# --- shares -----------------------------------------------------------------------------------------------------------


@_lever("gateway.kill")
def _(world: ShareWorld, fault: Fault) -> Generator[None]:
    world.host.kill(pause=2.0 * fault.value)
    yield


# --- the database -----------------------------------------------------------------------------------------------------


def _restart(how: signal.Signals) -> Callable[[World, Fault], Generator[None]]:
    def act(world: World, _fault: Fault) -> Generator[None]:
        world.cluster.stop(how)
        try:
            yield
        finally:
            world.cluster.start(world.database_clock.environment)

    return act


_lever("database.kill9")(_restart(signal.SIGKILL))
_lever("database.restart-fast")(_restart(signal.SIGINT))
_lever("database.restart-immediate")(_restart(signal.SIGQUIT))


@_lever("database.backend-kill9")
def _(world: World, fault: Fault) -> Generator[None]:
    with contextlib.suppress(psycopg.OperationalError, ProcessLookupError):
        if backends := world.cluster.backends():
            os.kill(backends[int(fault.value * len(backends))], signal.SIGKILL)
    yield


@_lever("database.freeze", "database.freeze-long")
def _(world: World, _fault: Fault) -> Generator[None]:
    with frozen_server(world.cluster.pid):
        yield


@_lever("database.terminate")
def _(world: World, _fault: Fault) -> Generator[None]:
    with (
        contextlib.suppress(psycopg.OperationalError),
        psycopg.connect(world.database_url, connect_timeout=2, autocommit=True) as connection,
    ):
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'mover'")
    yield


@_lever("database.exhaust")
def _(world: World, _fault: Fault) -> Generator[None]:
    with world.connections_used_up():
        yield


@_lever("database.clock")
def _(world: World, fault: Fault) -> Generator[None]:
    clock = world.database_clock
    clock.move(0.0 if clock.shift else fault.value)
    yield


# --- storages ---------------------------------------------------------------------------------------------------------


@_lever("storage.refuse")
def _(world: StoredWorld, _fault: Fault) -> Generator[None]:
    world.storage_relay.refuse()
    try:
        yield
    finally:
        world.storage_relay.accept()


def _rules(*rules: tuple[tuple[str, ...], Callable[[Fault], storage.Action], bool]) -> Lever:
    """Rules of the proxy: operations, action, and whether all are touched or only by chance."""

    @contextmanager
    def act(world: StoredWorld, fault: Fault) -> Generator[None]:
        made = [
            world.proxy.rule(
                operations, action(fault), probability=None if all_ else fault.value, seed=fault.n * 10 + number
            )
            for number, (operations, action, all_) in enumerate(rules)
        ]
        try:
            yield
        finally:
            for rule in made:
                world.proxy.remove_rule(rule)

    return act


_LEVERS["storage.reset"] = _rules(((), lambda _: storage.reset(), True))
_LEVERS["storage.black-hole"] = _rules(((), lambda _: storage.hold(), True))
_LEVERS["storage.throttle"] = _rules(((), lambda _: storage.slow_down(), False))
_LEVERS["storage.errors"] = _rules(
    (("CopyObject", "UploadPartCopy", "CompleteMultipartUpload"), lambda _: storage.error_in_200(forward=True), False),
    ((), lambda _: storage.internal_error(), False),
)
_LEVERS["storage.lost-replies"] = _rules((_CHANGES, lambda _: storage.lose_reply(), False))
_LEVERS["storage.slow"] = _rules(((), lambda fault: storage.delay(request_ms=int(fault.value * 1000)), True))
_LEVERS["storage.truncate"] = _rules(
    (("GetObject", "ListObjectsV2", "CopyObject", "UploadPartCopy"), lambda _: storage.truncate(40), False)
)


def _simulated(kind: str, fault_of: Callable[[Fault], object]) -> None:
    @contextmanager
    def act(world: World, fault: Fault) -> Generator[None]:
        world.simulator.set_faults({"fault": fault_of(fault), "probability": fault.value})
        try:
            yield
        finally:
            world.simulator.set_faults()

    _LEVERS[kind] = act


_simulated("simulator.throttle", lambda _: "slow_down")
_simulated("simulator.errors", lambda _: "internal_error")
_simulated("simulator.reset", lambda _: "reset")
_simulated("simulator.lost-replies", lambda _: "lost_reply")
_simulated("simulator.stall", lambda fault: {"stall": fault.lasts})
