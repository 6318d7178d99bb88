"""Where the time of a run goes, written as JSON to the file that ``SEQFERRY_TEST_TIMES`` names.

Each process of the run measures; the controlling one adds the figures up. ``tools/time_tests.py`` makes tables of them.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

_VARIABLE: Final = "SEQFERRY_TEST_TIMES"
_OUTPUT: Final = "seqferry_times"

_seconds: Final = Counter[str]()
_counts: Final = Counter[str]()
_open: Final[list[float]] = []


def add(name: str, seconds: float) -> None:
    """Counts one more ``name`` that took this long."""
    _seconds[name] += seconds
    _counts[name] += 1


@contextmanager
def measured(name: str) -> Iterator[None]:
    """Counts the block as ``name``, without the time of measured blocks within it."""
    started = time.perf_counter()
    _open.append(0.0)
    try:
        yield
    finally:
        whole = time.perf_counter() - started
        add(name, whole - _open.pop())
        if _open:
            _open[-1] += whole


def _figures() -> dict[str, Any]:
    return {"seconds": dict(_seconds), "counts": dict(_counts)}


def _add_all(figures: dict[str, Any]) -> None:
    _seconds.update(figures.get("seconds", {}))
    _counts.update(figures.get("counts", {}))


class Times:
    """The plugin: phases of tests by file, set-up of fixtures by name, and what ``measured`` counted."""

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        with measured(f"fixture {fixturedef.argname}"):
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if "PYTEST_XDIST_WORKER" not in os.environ:
            add(f"{report.when} {report.nodeid.partition('::')[0]}", report.duration)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_OUTPUT] = _figures()
            return
        file = Path(os.environ[_VARIABLE])
        if file.exists():  # of a run before this one: what failed is run once more
            _add_all(json.loads(file.read_text()))
        file.write_text(json.dumps(_figures()))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        _add_all(getattr(node, "workeroutput", {}).get(_OUTPUT, {}))


def register(config: pytest.Config) -> None:
    """Measures this run if the variable is set."""
    if _VARIABLE in os.environ:
        config.pluginmanager.register(Times())
