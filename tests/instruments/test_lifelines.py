"""A process that is bound to the one that has started it ends with that one, also when nothing can tell it so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import eventually

_TESTS = Path(__file__).parents[1]
_PARENT = """
import signal, sys, time
sys.path.insert(0, {tests!r})
from support.processes import RunningProcess
process = RunningProcess(["sleep", "600"], is_bound={bound!r})
if {stopped!r}:
    process.signal(signal.SIGSTOP)
print(process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_a_bound_process_ends_when_the_one_that_started_it_is_killed(*, stopped: bool) -> None:
    child = _left_by_a_kill(bound=True, stopped=stopped)

    eventually(lambda: not _is_there(child), what="the end of the child")


def test_one_that_is_not_bound_goes_on() -> None:
    child = _left_by_a_kill(bound=False, stopped=False)

    assert _is_there(child)
    os.kill(child, signal.SIGKILL)


def _left_by_a_kill(*, bound: bool, stopped: bool) -> int:
    script = _PARENT.format(tests=str(_TESTS), bound=bound, stopped=stopped)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    return child


def _is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
