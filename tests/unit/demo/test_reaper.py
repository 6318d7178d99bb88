"""What a demo starts does not outlive it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

_DEMO = """
import os, signal, sys
from seqferry.demo.reaper import Reaper

class MortalGuard(Reaper):
    def add(self, what):
        if "before" in sys.argv:
            os.kill(os.getpid(), signal.SIGKILL)
        super().add(what)
        if "after" in sys.argv:
            os.kill(os.getpid(), signal.SIGKILL)

body = "import sys; open(sys.argv[1], 'x'); sys.exit(len(sys.stdin.read()))"
with MortalGuard() as reaper:
    process = reaper.start([sys.executable, "-c", body, sys.argv[1]], log=sys.stderr.buffer, env=dict(os.environ))
    sys.exit(process.wait())
"""


@pytest.mark.parametrize(("killed", "code"), [("", 0), ("before", -signal.SIGKILL), ("after", -signal.SIGKILL)])
def test_a_process_begins_only_when_its_end_is_seen_to(tmp_path: Path, killed: str, code: int) -> None:
    made = tmp_path / "made"

    # Returns when all processes that hold the outputs have ended.
    demo = subprocess.run(
        [sys.executable, "-c", _DEMO, str(made), killed], capture_output=True, timeout=60, check=False
    )

    assert demo.returncode == code, demo.stderr
    assert made.exists() == (killed == "")
