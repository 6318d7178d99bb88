"""Shared parts of the dialects: an engine with this process's settings, pipes through a folder, the end by a signal."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from seqferry.engine.engine import Engine
from seqferry.model.errors import ConfigError
from seqferry.model.models import TransferSpec
from seqferry.nextflow.unrecorded import TransferResult, UnrecordedTransfer
from seqferry.settings.config import Settings
from seqferry.spec import identity
from seqferry.spec.build import build_spec

_CHUNK: Final = 1024 * 1024
_STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedError(Exception):
    """A signal asked this process to stop; ``number`` says which."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


def engine() -> Engine:
    """Engine with the limits of ``SEQFERRY_*`` variables and the configuration file."""
    return Engine.of(Settings.load(with_tables=False))


def copy(
    source: str, target: str, options: dict[str, Any], *, below: bool, arrived: Callable[[str, str], None] | None
) -> tuple[TransferSpec, TransferResult]:
    """Copy between S3 and this machine; ``-`` is standard input or output. What is at the target is replaced, unless
    ``options`` say otherwise.

    A transfer that a signal stops aborts its uploads first.

    Raises:
        StoppedError: a signal stopped the copy.
        SeqferryError: the arguments contradict each other, or the copy failed as a whole.
    """
    with _replace_pipes(source, target) as (source_path, target_path):
        asked = build_spec(
            source_path,
            target_path,
            # A task reads its inputs next.
            page_cache=True,
            below=below,
            allow_local=True,
            **{"if_exists": "overwrite"} | options,
        )
        spec = identity.resolve(asked)
        transfer = UnrecordedTransfer(engine(), spec, arrived)
        caught: list[int] = []

        def stop(number: int) -> None:
            caught.append(number)
            transfer.stop()

        with on_signals(stop):
            result = transfer.run()
        if caught:
            raise StoppedError(caught[0])
        if target == "-" and result.done:
            _pour(Path(target_path))
    return spec, result


@contextmanager
def on_signals(stop: Callable[[int], None]) -> Generator[None]:
    """Within the block, a signal that asks this process to end calls ``stop`` with its number instead."""

    def catch(number: int, _frame: FrameType | None) -> None:
        stop(number)

    before = {number: signal.signal(number, catch) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _replace_pipes(source: str, target: str) -> Generator[tuple[str, str]]:
    """Paths in place of ``-``: input from a pipe is read a second time, and only verified bytes go into one."""
    if "-" not in (source, target):
        yield source, target
        return
    try:
        with tempfile.TemporaryDirectory(prefix="seqferry-pipe-") as folder:
            path = Path(folder) / "bytes"
            if source == "-":
                with path.open("wb") as file:
                    shutil.copyfileobj(sys.stdin.buffer, file, _CHUNK)
                yield str(path), target
            else:
                yield source, str(path)
    except OSError as why:
        if isinstance(why, BrokenPipeError):
            raise
        raise ConfigError(
            f"Standard input and output pass through a temporary folder: {why.strerror or why}. Make room in "
            f"{os.environ.get('TMPDIR', 'TMPDIR')}, or let TMPDIR name another folder."
        ) from None


def _pour(path: Path) -> None:
    with path.open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer, _CHUNK)
    sys.stdout.buffer.flush()
