"""Every error of ours crosses a DBOS step, which pickles what it records."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from seqferry.model.errors import SeqferryError, StorageError, UsageError


def _tree(kind: type[SeqferryError]) -> Iterator[type[SeqferryError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _tree(child)


@pytest.mark.parametrize("kind", list(_tree(SeqferryError)))
def test_an_error_survives_pickling(kind: type[SeqferryError]) -> None:
    error = kind("Copying a failed: no space. Free some.")

    again = pickle.loads(pickle.dumps(error))

    assert type(again) is kind
    assert (again.message, str(again), again.code, again.exit_code) == (
        error.message,
        "Copying a failed: no space. Free some.",
        kind.code,
        kind.exit_code,
    )


def test_the_facts_of_a_storage_error_survive_too() -> None:
    error = StorageError("Denied.", "person", "AccessDenied", "CopyObject", True)

    again = pickle.loads(pickle.dumps(error))

    assert (again.message, again.error_class, again.error_code, again.operation, again.job_wide) == (
        "Denied.",
        "person",
        "AccessDenied",
        "CopyObject",
        True,
    )


def test_codes_tell_errors_apart() -> None:
    kinds = list(_tree(SeqferryError))

    assert len({kind.code for kind in kinds}) == len(kinds)
    assert [kind for kind in kinds if kind.exit_code == 2] == [UsageError]


@pytest.mark.parametrize(
    ("error_class", "job_wide", "transient"),
    [("retry", False, True), ("throttle", False, True), ("retry", True, False), ("person", False, False)],
)
def test_a_failure_that_may_pass_is_worth_another_try_of_its_step(
    error_class: str, job_wide: bool, transient: bool
) -> None:
    assert StorageError("busy", error_class, job_wide=job_wide).is_transient == transient
