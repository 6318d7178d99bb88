"""Processes that tests start heed the signals of a terminal, however the run itself was started."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.signals import OF_TERMINALS

_RUN = """
import os, signal, subprocess, sys
from support.signals import heed_signals_in_children

heed_signals_in_children()
os.kill(os.getpid(), int(sys.argv[1]))
sys.exit(-subprocess.run(["/bin/sh", "-c", f"kill -{sys.argv[1]} $$; exit 0"]).returncode)
"""


@pytest.mark.parametrize("number", OF_TERMINALS)
def test_a_child_heeds_what_the_run_ignores(number: signal.Signals) -> None:
    # The shell ignores the signal, as nohup does and a shell for what it runs behind.
    ignoring = ["/bin/sh", "-c", f'trap "" {number}; exec "$@"', "sh", sys.executable, "-c", _RUN, str(int(number))]

    ran = subprocess.run(ignoring, cwd=Path(__file__).parents[1], timeout=60, check=False)

    assert ran.returncode == number
