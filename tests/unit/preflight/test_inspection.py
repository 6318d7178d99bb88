"""The look at objects before a transfer: all up to a number and then a sample, and what an answer means."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from seqferry.engine import buckets
from seqferry.model.errors import StorageError
from seqferry.model.locations import S3Location
from seqferry.model.models import TransferSpec
from seqferry.planning.decision import Decision
from seqferry.preflight import inspection, probes
from seqferry.preflight.inspection import Inspection
from seqferry.preflight.report import PredictedFailure, PreflightReport

_SPEC: Any = TransferSpec(S3Location("from", "run/"), S3Location("to", "in/"), strip="run/")

_ENGINE: Any = SimpleNamespace(cached_source=lambda _: None)


def _objects(count: int) -> list[Any]:
    return [(SimpleNamespace(key=f"k{n}", size=1, etag="e", version_id=None), f"t{n}") for n in range(1, count + 1)]


@pytest.mark.parametrize(
    ("at_most", "count", "tried"),
    [
        (None, 500, 500),
        (10, 9, 9),
        (10, 10, 10),
        (10, 11, 10),
        (10, 100, 10 + 1),  # the hundredth
        (10, 1000, 10 + 1 + 1),  # and the thousandth
        (100, 1000, 100 + 9),
        (100, 10_000, 100 + 9 + 9),
        (100, 100_000, 100 + 9 + 9 + 9),
    ],
)
def test_all_are_tried_up_to_a_number_and_then_a_sample(
    monkeypatch: pytest.MonkeyPatch, at_most: int | None, count: int, tried: int
) -> None:
    seen: list[str] = []

    def look_up(_engine: Any, _spec: Any, key: str, *_args: Any, **_named: Any) -> None:
        seen.append(key)

    monkeypatch.setattr(probes, "check_readable", look_up)
    findings = PreflightReport()

    with Inspection(SimpleNamespace(), _SPEC, findings, at_most=at_most) as look:  # type: ignore[arg-type]
        found = _objects(count)
        for start in range(0, count, 1000):
            assert look.check(found[start : start + 1000]) == [None] * len(found[start : start + 1000])

    assert (len(seen), findings.tried) == (tried, tried)
    assert findings.looked_up == (None if tried == count else tried)


@pytest.mark.parametrize(
    ("size", "etag", "error", "trouble"),
    [
        (1, "e", None, None),
        (0, "e", None, None),
        (1, "", None, None),
        (1, "e", StorageError("no", "person", "AccessDenied", "GetObject"), ("AccessDenied", "GetObject")),
        (0, "e", StorageError("no", "person", "Forbidden", "HeadObject"), ("AccessDenied", "HeadObject")),
        (1, "e", StorageError("cold", "person", "InvalidObjectState", "GetObject"), ("Archived", "GetObject")),
        (1, "e", StorageError("gone", "not_found", "NoSuchKey", "GetObject"), ("NoSuchKey", "GetObject")),
        # It was replaced since it was listed, and can be read.
        (1, "e", StorageError("changed", "source_changed", "SourceChanged", "GetObject"), None),
        # It can be read, though not in ranges.
        (1, "e", StorageError("all", "object", "RangeIgnored", "GetObject"), None),
    ],
)
def test_one_request_shows_whether_an_object_can_be_read(
    monkeypatch: pytest.MonkeyPatch, size: int, etag: str, error: StorageError | None, trouble: tuple[str, str] | None
) -> None:
    asked: list[str] = []

    def answer(name: str) -> Any:
        def ask(*_: Any) -> Any:
            asked.append(name)
            if error is not None:
                raise error
            return SimpleNamespace(archived=False)

        return ask

    monkeypatch.setattr(buckets, "read_first_byte", answer("read"))
    monkeypatch.setattr(buckets, "head_object", answer("look"))

    found = probes.check_readable(_ENGINE, _SPEC, "k", size=size, etag=etag)

    assert (None if found is None else (found.code, found.operation)) == trouble
    assert asked == ["read" if size and etag else "look"]


def test_of_an_object_that_may_be_in_the_cache_no_byte_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "head_object", lambda *_: SimpleNamespace(archived=False))
    engine: Any = SimpleNamespace(cached_source=lambda spec: spec.source)

    # A read would fail: there is no such engine.
    assert probes.check_readable(engine, _SPEC, "k", size=1, etag="e") is None


def test_a_storage_that_falters_gives_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise StorageError("later", "throttle", "SlowDown", "GetObject")

    monkeypatch.setattr(buckets, "read_first_byte", fail)

    with pytest.raises(StorageError, match="later"):
        probes.check_readable(_ENGINE, _SPEC, "k", size=1, etag="e")


def _page(*actions: tuple[str, int]) -> list[Any]:
    return [
        (SimpleNamespace(key=f"k{number}", size=size), Decision(action, f"t{number}", "Code", "why"))
        for number, (action, size) in enumerate(actions)
    ]


@pytest.mark.parametrize(
    ("page", "at_most", "objects", "size", "whole", "failed", "wanted"),
    [
        ([], None, 0, 0, True, 0, []),
        ([("copy", 1), ("skip", 2), ("refuse", 4), ("leave_out", 8)], None, 3, 7, True, 1, ["t0"]),
        ([("copy", 1), ("copy", 2)], 2, 2, 3, True, 0, ["t0", "t1"]),
        ([("copy", 1), ("copy", 2), ("copy", 4)], 2, 2, 3, False, 0, ["t0", "t1"]),
        # What is left out does not count as one that was not looked at.
        ([("copy", 1), ("copy", 2), ("leave_out", 4)], 2, 2, 3, True, 0, ["t0", "t1"]),
    ],
)
def test_objects_are_looked_at_up_to_a_number(
    page: Any, at_most: int | None, objects: int, size: int, whole: bool, failed: int, wanted: list[str]
) -> None:
    found = PreflightReport()

    looked_at = inspection._take(found, _page(*page), at_most)

    assert (found.objects, found.bytes, found.whole, found.failing) == (objects, size, whole, failed)
    assert [target for _, target in looked_at] == wanted


@pytest.mark.parametrize(
    ("error", "code", "operation"),
    [
        (StorageError("no", "person", "Forbidden", "HeadObject"), "AccessDenied", "HeadObject"),
        (StorageError("no", "person", "NoSuchBucket"), "NoSuchBucket", "HeadObject"),
        (StorageError("no"), "storage", "HeadObject"),
    ],
)
def test_a_refusal_of_the_storage_is_told_by_its_code(error: StorageError, code: str, operation: str) -> None:
    assert probes.predict_failure(error) == PredictedFailure(code, operation, "no")
