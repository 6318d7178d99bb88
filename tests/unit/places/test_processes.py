"""Processes that have ended are told from those that only cannot be seen."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from seqferry.places import processes

_NAME = (
    "import sys; from seqferry.places import processes; print(processes.name_suffix(), flush=True); sys.stdin.read()"
)


@pytest.fixture
def child() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", _NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _named(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return f"login-1-{process.pid}-01234567{process.stdout.readline().strip()}"


def test_a_process_that_lives_or_is_stopped_has_not_ended(child: subprocess.Popen[str]) -> None:
    with child:
        name = _named(child)
        assert not processes.has_ended(name)
        child.send_signal(signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        assert not processes.has_ended(name)
        child.kill()


def test_a_killed_process_has_ended_before_and_after_its_parent_took_notice(child: subprocess.Popen[str]) -> None:
    with child:
        name = _named(child)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
        assert processes.has_ended(name)
    assert processes.has_ended(name)


def test_a_process_id_that_is_used_again_is_another_process() -> None:
    own = processes.name_suffix()
    assert not processes.has_ended(own)
    assert processes.has_ended(re.sub(r"[0-9]+$", "1", own))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "sqlite",
        "login-1-123-01234567",
        "login-1-123-01234567@0123456789ab.4194304.1",  # another machine
        "@0123456789ab.0.1",
        "@@",
    ],
)
def test_a_name_that_tells_nothing_stands_for_a_process_that_may_live(name: str) -> None:
    assert not processes.has_ended(name)


def test_a_name_with_more_behind_it_tells_nothing() -> None:
    gone = re.sub(r"[0-9]+$", "1", processes.name_suffix())
    assert not processes.has_ended(f"{gone}-more")
    assert not processes.has_ended(gone.replace(str(os.getpid()), "9999999999") + "x")
