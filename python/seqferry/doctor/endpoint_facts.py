"""Facts about endpoints, kept in the file ``endpoints.json`` of the state folder: by endpoint and bucket.

A look by ``seqferry doctor`` writes answers, a transfer writes what it had to learn. The file is a cache: a damaged one
counts as empty and is written anew. It holds addresses, names of buckets and short texts, and no credentials.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from seqferry.model.locations import Location, S3Location
from seqferry.model.models import TransferSpec
from seqferry.places import endpoints, private_files

MOST_ENDPOINTS: Final = 100
"""The newest are kept: a person looks at few."""

LIFETIME: Final = 7 * 86400.0
"""Seconds for which an answer is believed. Services are upgraded and buckets configured anew within weeks."""

_MOST_TEXTS: Final = 20
_MOST_CHARACTERS: Final = 500
_MOST_BYTES: Final = 4 * 1024 * 1024
"""More than this file ever has: 100 endpoints with 2 x 20 texts of 500 characters, escaped."""
_FORMAT: Final = 1
_AWS: Final = "aws"


@dataclass(frozen=True, slots=True)
class Answer:
    """One fact, and when it was found (seconds since the epoch)."""

    text: str
    at: float

    def age(self, now: float) -> float | None:
        """Seconds; None when it is too old to be believed, or of a clock that was ahead."""
        found = now - self.at
        return found if 0.0 <= found <= LIFETIME else None


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is kept of a bucket at an endpoint.

    Attributes:
        identity: proof of the identity that asked (``Identity.proof``); what may be read depends on it.
        answers: of the look, by topic.
        learned: warnings of transfers.
    """

    endpoint: str
    bucket: str
    identity: str = ""
    answers: Mapping[str, Answer] = field(default_factory=dict[str, Answer])
    learned: tuple[Answer, ...] = ()

    def newest(self) -> float:
        """Time of the newest fact."""
        return max((one.at for one in (*self.answers.values(), *self.learned)), default=0.0)


def read(state_dir: Path, place: S3Location) -> Facts:
    """Facts that are kept about the bucket of this place; empty where they cannot be read."""
    endpoint = name_of(place)
    found = (one for one in _read(state_dir) if (one.endpoint, one.bucket) == (endpoint, place.bucket))
    return next(found, Facts(endpoint, place.bucket))


def write_answers(state_dir: Path, place: S3Location, identity: str, answers: Mapping[str, Answer]) -> None:
    """Keep the answers of a look in place of earlier ones.

    Raises:
        OSError: the file cannot be written.
    """
    _change(state_dir, place, lambda old: Facts(old.endpoint, old.bucket, identity, answers, old.learned))


def learn(state_dir: Path, spec: TransferSpec, note: str) -> None:
    """Keep what a transfer had to learn of an endpoint; ``note`` begins with its bucket.

    Raises:
        OSError: the file cannot be written.
    """
    place = _place_of(spec, note)
    if place is None:
        return
    new = Answer(note.removeprefix(f"s3://{place.bucket}: ")[:_MOST_CHARACTERS], time.time())

    def changed(old: Facts) -> Facts:
        others = [one for one in old.learned if one.text != new.text]
        return Facts(old.endpoint, old.bucket, old.identity, old.answers, (new, *others)[:_MOST_TEXTS])

    _change(state_dir, place, changed)


def name_of(place: S3Location) -> str:
    """The endpoint in one spelling; all of AWS is one, but for its parts with buckets of their own."""
    return endpoints.of(place) or _AWS


def _place_of(spec: TransferSpec, note: str) -> S3Location | None:
    # Tags are read at the source; all else is refused at the target.
    sides: tuple[Location, Location] = spec.target, spec.source
    for place in reversed(sides) if "GetObjectTagging" in note else sides:
        if isinstance(place, S3Location) and note.startswith(f"s3://{place.bucket}: "):
            return place
    return None


# --- the file ---------------------------------------------------------------------------------------------------------


def _file(state_dir: Path) -> Path:
    return state_dir / "endpoints.json"


def _change(state_dir: Path, place: S3Location, changed: Callable[[Facts], Facts]) -> None:
    if endpoints.fault(endpoints.url(place) or "https://aws") == "credentials":
        return  # an address with a password in it, which no request is sent to either
    with _locked(state_dir):
        all_facts = _read(state_dir)
        key = name_of(place), place.bucket
        old = next((one for one in all_facts if (one.endpoint, one.bucket) == key), Facts(*key))
        others = [one for one in all_facts if (one.endpoint, one.bucket) != key]
        kept = sorted([changed(old), *others], key=Facts.newest, reverse=True)[:MOST_ENDPOINTS]
        text = json.dumps({"format": _FORMAT, "endpoints": [asdict(one) for one in kept]}, indent=1)
        private_files.write(_file(state_dir), text + "\n")


@contextmanager
def _locked(state_dir: Path) -> Generator[None]:
    """Between reading and writing: workers and ``doctor`` may learn at the same time."""
    descriptor = private_files.opened(state_dir / "endpoints.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(state_dir: Path) -> list[Facts]:
    """All that is in the file; entries that are damaged are left out."""
    try:
        descriptor = private_files.opened(_file(state_dir), os.O_RDONLY)
        with os.fdopen(descriptor, encoding="utf-8") as file:
            if os.fstat(descriptor).st_size > _MOST_BYTES:
                return []
            data = json.load(file)
        entries: list[Any] = data["endpoints"] if data["format"] == _FORMAT else []
        return [one for each in entries if (one := _parsed(each)) is not None]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def _parsed(data: Any) -> Facts | None:
    try:
        answers = {str(name): _answer(one) for name, one in data["answers"].items()}
        learned = tuple(_answer(one) for one in data["learned"][:_MOST_TEXTS])
        return Facts(str(data["endpoint"]), str(data["bucket"]), str(data["identity"]), answers, learned)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _answer(data: Any) -> Answer:
    at = float(data["at"])
    if not math.isfinite(at):
        raise ValueError(at)
    return Answer(str(data["text"])[:_MOST_CHARACTERS], at)
