"""Commands under test as processes: started, killed, waited for, read."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from support import lifelines, preloaded
from support.preloaded import ForkedProcess
from support.run import find_tool
from support.times import measured
from support.waiting import eventually


def seqferry() -> Path:
    """The installed command.

    Raises:
        support.run.MissingToolError: the program is not installed.
    """
    return find_tool("seqferry", variable="SEQFERRY_COMMAND", hint="run `make build`")


class RunningProcess:
    """A process with its output in files. A context manager: killed at the end of the block if it still runs."""

    _BEHIND: Final = 10.0

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        is_preloaded: bool = False,
        is_bound: bool = False,
    ) -> None:
        """Starts ``command`` with ``environment`` on top of this process's own. It has no terminal and no input.

        Args:
            is_preloaded: the command is that of ``seqferry()`` or ``[sys.executable, "-c", ...]``, and a process that
                has made the imports of the first may run it.
            is_bound: the kernel kills it when the thread that starts it ends, also by a kill of this process.
        """
        self.command = [str(word) for word in command]
        self._folder = tempfile.TemporaryDirectory(prefix="seqferry-process-")
        self._stdout = Path(self._folder.name) / "stdout"
        self._stderr = Path(self._folder.name) / "stderr"
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            whole = {**os.environ, **(environment or {})}
            self._process: subprocess.Popen[bytes] | ForkedProcess
            if is_preloaded and not is_bound and preloaded.can_run(environment or {}):
                with measured("fork a command"):
                    self._process = ForkedProcess(
                        self.command, whole, str(cwd or Path.cwd()), [stdout.fileno(), stderr.fileno()]
                    )
            else:
                self._process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    env=whole,
                    cwd=cwd,
                    start_new_session=True,  # so that kill reaches its children too
                    preexec_fn=lifelines.end_with_parent(signal.SIGKILL) if is_bound else None,
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._folder.cleanup()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdout(self) -> str:
        """What it has printed so far."""
        return self._stdout.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return self._stderr.read_text(errors="replace")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self, deadline: float = 120.0) -> int:
        """Its exit status (negative: the signal that ended it).

        Raises:
            TimeoutError: the process still runs after ``deadline`` seconds; its output is in the text.
        """
        kind = "a forked command" if isinstance(self._process, ForkedProcess) else Path(self.command[0]).name
        try:
            with measured(f"wait for the end of {kind}"):
                return self._process.wait(deadline)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"still running after {deadline:g} s: {self}") from None

    def wait_for_output(self, text: str, deadline: float = 60.0) -> None:
        """Wait until a whole line with ``text`` stands in its output or among its errors.

        Raises:
            TimeoutError: the deadline passed.
            RuntimeError: the process ended without this output.
        """
        self._wait_for(text, lambda: (self.stdout, self.stderr), deadline)

    def wait_for_line(self, text: str, deadline: float = 60.0) -> str:
        """Wait until a whole line with ``text`` stands in its output; returns the first.

        Raises: as ``wait_for_output``.
        """
        self._wait_for(text, lambda: (self.stdout,), deadline)
        return next(line for line in self.stdout.splitlines() if text in line)

    def _wait_for(self, text: str, outputs: Callable[[], tuple[str, ...]], deadline: float) -> None:
        def there() -> bool:
            ended = not self.running  # asked first: output may still come between the two
            # Output is read in pieces that end anywhere.
            if any("\n" in output.partition(text)[2] for output in outputs()):
                return True
            if ended:
                raise RuntimeError(f"ended without printing {text!r}: {self}")
            return False

        eventually(there, what=f"{text!r} from {self.command}", deadline=deadline, every=0.02)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process alone, as a person or a service manager would."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, to its children as well. Nothing happens when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(self._BEHIND)

    def __str__(self) -> str:
        state = "running" if self.running else f"ended with status {self._process.returncode}"
        return f"{' '.join(self.command)} ({state})\n--- stdout ---\n{self.stdout}\n--- stderr ---\n{self.stderr}"


def run(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    deadline: float = 120.0,
    expect: int | None = 0,
    is_preloaded: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end.

    Args:
        environment: on top of this process's own.
        expect: the exit status; None for any.
        is_preloaded: as ``RunningProcess`` takes it.

    Raises:
        AssertionError: another status than expected; the output is in the text.
        TimeoutError: the process did not end in time and was killed.
    """
    with RunningProcess(command, environment=environment, cwd=cwd, is_preloaded=is_preloaded) as process:
        status = process.wait(deadline)
        assert expect is None or status == expect, f"expected status {expect}: {process}"
        return subprocess.CompletedProcess(process.command, status, process.stdout, process.stderr)


def run_seqferry(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, expect: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Runs ``seqferry`` as ``run`` does, by a process that has made its imports."""
    return run([seqferry(), *arguments], environment=environment, expect=expect, is_preloaded=True)
