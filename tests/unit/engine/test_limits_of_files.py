"""Limits of open files, raised as far as the system allows."""

from __future__ import annotations

import resource

import pytest

from seqferry.engine import process_limits
from seqferry.model.errors import ConfigError

_ALL, _NONE = process_limits._ALL_FILES, resource.RLIM_INFINITY


def _limits(patch: pytest.MonkeyPatch, soft: int, hard: int, *, refuses: bool = False) -> list[tuple[int, int]]:
    """Limits that were set."""
    made: list[tuple[int, int]] = []

    def change(_which: int, limits: tuple[int, int]) -> None:
        if refuses:
            raise ValueError
        made.append(limits)

    patch.setattr(resource, "getrlimit", lambda _which: (soft, hard))
    patch.setattr(resource, "setrlimit", change)
    return made


@pytest.mark.parametrize(
    ("soft", "hard", "files", "made"),
    [
        (1024, 4096, 4096, [(4096, 4096)]),
        (1024, 10**6, _ALL, [(_ALL, 10**6)]),
        (1024, _NONE, _ALL, [(_ALL, _NONE)]),
        (4096, 4096, 4096, []),
        (_ALL, _NONE, _ALL, []),
        (10**6, 10**6, 10**6, []),
        (_NONE, _NONE, _ALL, []),
    ],
)
def test_the_limit_is_raised_as_far_as_it_may_and_not_without_need(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, files: int, made: list[tuple[int, int]]
) -> None:
    changed = _limits(monkeypatch, soft, hard)

    assert process_limits.open_files() == files
    assert changed == made


def test_a_system_that_refuses_leaves_the_limit_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    _limits(monkeypatch, 1024, _NONE, refuses=True)

    assert process_limits.open_files() == 1024


@pytest.mark.parametrize("limit", [process_limits._FEWEST_FILES, process_limits._FEWEST_FILES + 1, 4096])
def test_requests_leave_files_for_all_else(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    _limits(monkeypatch, limit, limit)

    assert process_limits.files_for_requests(10**6) == max(limit - process_limits._OTHER_FILES, 1)


def test_so_few_files_that_nothing_works_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    few = process_limits._FEWEST_FILES - 1
    _limits(monkeypatch, few, few)

    with pytest.raises(ConfigError, match=f"may open {few} files"):
        process_limits.files_for_requests(10)
