"""The copies of a move, held against the record of them before their sources are removed."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from seqferry.db.objects import ArrivedObject
from seqferry.engine import buckets
from seqferry.model.errors import StorageError
from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.models import TransferSpec
from seqferry.workflows.operations.move import copies

_SPEC: Any = TransferSpec(S3Location("from", "run/"), S3Location("to", "in/"), strip="run/", operation="move")
_MD5 = "900150983cd24fb0d6963f7d28e17f72"
_OTHER = "d41d8cd98f00b204e9800998ecf8427e"


@dataclass
class _Copy:
    """An object of the target as a look-up shows it now."""

    size: int = 3
    etag: str = _MD5
    version_id: str | None = None
    refusal: tuple[str, str] | None = None
    last_modified: float = 5.0
    changed: float = 0.0


def _arrived(number: int = 1, *, etag: str = _MD5, target_etag: str | None = _MD5, **more: Any) -> ArrivedObject:
    usual = dict.fromkeys(("part_size", "target_version_id", "checksum_algorithm", "checksum", "ended_at"))
    place = {"source_key": f"run/{number}", "target_key": f"in/{number}", "size": 3}
    return ArrivedObject(**{**usual, "id": number, "etag": etag, "target_etag": target_etag, **place} | more)


def _filter(
    patch: pytest.MonkeyPatch,
    there: list[_Copy | None] | StorageError,
    page: list[ArrivedObject],
    digests: Any = (),
    spec: Any = _SPEC,
) -> tuple[list[int], dict[int, str]]:
    """Objects whose copies are as recorded, and the others with the reason; ``digests`` are what reading gives."""
    asked: list[str] = []

    def head(_place: Any, _keys: list[str]) -> list[_Copy | None]:
        if isinstance(there, StorageError):
            raise there
        return there

    def read(_engine: Any, _place: Any, requests: Any) -> Any:
        asked.extend(requests)
        return iter([[], list(digests)])

    patch.setattr(buckets, "read_digests", read)
    runtime: Any = SimpleNamespace(engine=SimpleNamespace(head=head), check=lambda: None)
    kept: dict[int, str] = {}
    found = copies.filter_unchanged(runtime, spec, page, kept)
    assert len(asked) == len(digests)
    return [one.id for one in found], kept


@pytest.mark.parametrize(
    ("recorded", "there", "digests", "why"),
    [
        (_arrived(), _Copy(), [], None),
        (_arrived(), None, [], "its copy is not there any more"),
        (_arrived(), _Copy(size=4), [], "its copy has 4 bytes by now, and 3 were recorded"),
        (_arrived(), _Copy(etag=_OTHER), [], "its copy was overwritten"),
        (_arrived(), _Copy(refusal=("SpecialFile", "a pipe.")), [], "its copy cannot be read: a pipe"),
        # The ETag of the target is not on record: the bytes are read.
        (_arrived(target_etag=None), _Copy(etag="opaque"), [[_MD5]], None),
        (_arrived(target_etag=None), _Copy(etag="opaque"), [[_OTHER, _MD5]], None),
        (_arrived(target_etag=None), _Copy(etag="opaque"), [[_OTHER]], "its copy was overwritten"),
        (_arrived(target_etag=None), _Copy(), [[]], "its copy was overwritten"),
        (_arrived(target_etag=None), _Copy(), [StorageError("It is archived.", "person")], "It is archived"),
        # Another version with the same ETag.
        (_arrived(target_version_id="v1"), _Copy(version_id="v2"), [[_MD5]], None),
        (_arrived(target_version_id="v1"), _Copy(version_id="v1"), [], None),
        # No digest on record: nothing shows that it is the recorded copy.
        (
            _arrived(etag="opaque", target_etag=None),
            _Copy(etag="opaque"),
            [],
            "its copy was changed after it was recorded, and no digest is on record to compare it with",
        ),
        (_arrived(size=0, etag="opaque", target_etag=None), _Copy(size=0), [], None),
    ],
)
def test_the_source_stays_unless_its_copy_is_as_recorded(
    monkeypatch: pytest.MonkeyPatch, recorded: ArrivedObject, there: _Copy | None, digests: list[Any], why: str | None
) -> None:
    found, kept = _filter(monkeypatch, [there], [recorded], digests)

    assert (found, kept) == (([1], {}) if why is None else ([], {1: why}))


def test_each_object_of_a_page_gets_its_own_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    page = [_arrived(1), _arrived(2, target_etag=None), _arrived(3), _arrived(4, target_etag=None), _arrived(5)]
    there = [_Copy(), _Copy(), None, _Copy(), _Copy(etag=_OTHER)]

    found, kept = _filter(monkeypatch, there, page, [[_OTHER], [_MD5]])

    assert found == [1, 4]
    assert kept.keys() == {2, 3, 5}


def test_a_storage_that_refuses_the_look_keeps_all_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = StorageError("HeadObject s3://to/in/1: no.", "person", "AccessDenied", "HeadObject")

    found, kept = _filter(monkeypatch, denied, [_arrived(1), _arrived(2)])

    assert found == []
    assert kept == dict.fromkeys((1, 2), "HeadObject s3://to/in/1: no")


def test_a_storage_that_is_busy_is_asked_again_and_nothing_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match="busy"):
        _filter(monkeypatch, StorageError("busy", "throttle"), [_arrived()])


def test_one_object_under_two_addresses_keeps_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = (S3Location("one", "run/", endpoint_url=f"https://{name}.example") for name in "ab")
    spec = TransferSpec(source, target, "run/", operation="move")

    found, kept = _filter(monkeypatch, [_Copy()], [_arrived(target_key="run/1")], spec=spec)

    assert found == []
    assert kept == {1: "source and target seem to be one object under two addresses"}


@pytest.mark.parametrize(("changed", "why"), [(9.0, None), (11.0, "it was changed after it was copied")])
def test_a_file_that_was_changed_after_its_copy_stays(
    monkeypatch: pytest.MonkeyPatch, changed: float, why: str | None
) -> None:
    spec = TransferSpec(LocalFolder("/data/run"), S3Location("to", "in/"), operation="move")

    found, kept = _filter(monkeypatch, [_Copy(changed=changed)], [_arrived(ended_at=10.0)], spec=spec)

    assert (found, kept) == (([1], {}) if why is None else ([], {1: why}))
