"""Gateways that run on this machine are found, and what they have uploaded is waited for."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from seqferry.cli.commands import gateway_control as commands
from seqferry.engine import gateway_control
from seqferry.model.errors import ConfigError, UsageError


@contextmanager
def _served(cache: Path) -> Generator[None]:
    """A cache as a gateway of this process holds it: its lock is open, and its socket listens."""
    cache.mkdir(exist_ok=True)
    with (cache / "gateway.lock").open("w"), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        folder = os.open(cache, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{folder}/gateway.sock")
        os.close(folder)
        listener.listen()
        yield
    (cache / "gateway.sock").unlink()


def test_a_gateway_is_found_while_it_runs(tmp_path: Path) -> None:
    cache = tmp_path / "of a share"
    assert cache not in gateway_control.find_running()
    with _served(cache):
        assert cache in gateway_control.find_running()
    assert cache not in gateway_control.find_running()


def test_a_lock_without_a_socket_is_no_gateway(tmp_path: Path) -> None:
    with (tmp_path / "gateway.lock").open("w"):
        assert tmp_path not in gateway_control.find_running()


def test_the_only_gateway_needs_no_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gateway_control, "find_running", lambda: [tmp_path])

    assert commands._cache_of(None) == tmp_path
    assert commands._cache_of(Path("/named")) == Path("/named")


def test_one_of_several_is_named_and_none_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_control, "find_running", lambda: [Path("/a"), Path("/b")])
    with pytest.raises(UsageError, match=r"2 gateways run here: .*--cache: /a, /b"):
        commands._cache_of(None)

    monkeypatch.setattr(gateway_control, "find_running", list)
    with pytest.raises(ConfigError, match="No gateway of this user runs"):
        commands._cache_of(None)


def test_epochs_are_waited_for_until_the_record_has_them(tmp_path: Path) -> None:
    journal = tmp_path / "writes/00ff/journal"
    journal.mkdir(parents=True)
    first, second = (journal / f"{number:020}.epoch" for number in (1, 2))
    first.touch()
    waited_for = gateway_control.list_epochs(tmp_path)
    second.touch()
    assert waited_for == {first}
    assert not gateway_control.wait_for_record(tmp_path, waited_for, None, seconds=0)

    waiting = threading.Thread(target=first.unlink)
    waiting.start()

    assert gateway_control.wait_for_record(tmp_path, waited_for, None, seconds=60)
    waiting.join()
    assert gateway_control.list_epochs(tmp_path) == {second}


def test_the_record_is_not_waited_for_when_its_process_has_ended(tmp_path: Path) -> None:
    (journal := tmp_path / "writes/00ff/journal").mkdir(parents=True)
    (journal / "1.epoch").touch()
    child = os.fork()
    if child == 0:
        os._exit(0)
    process = os.pidfd_open(child)

    assert not gateway_control.wait_for_record(tmp_path, gateway_control.list_epochs(tmp_path), process, seconds=600)

    os.close(process)
    os.waitpid(child, 0)


def test_the_process_that_serves_is_watched_until_its_end(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    reading, writing = os.pipe()
    with _served(cache), gateway_control.open_process(cache) as process:
        assert process is not None
        assert not gateway_control.wait_for_end(process, seconds=0)
    with gateway_control.open_process(cache) as process:
        assert process is None
    child = os.fork()
    if child == 0:
        os.read(reading, 1)
        os._exit(0)
    process = os.pidfd_open(child)
    os.write(writing, b"x")
    assert gateway_control.wait_for_end(process, seconds=60)
    os.waitpid(child, 0)
    for descriptor in (reading, writing, process):
        os.close(descriptor)
