"""The spec of ``cleanup``, and the selection of the unfinished multipart uploads to abort.

Invariant: an upload of a transfer that is unfinished in our records is never aborted, however old it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from seqferry.engine import buckets
from seqferry.engine.buckets import OpenUpload
from seqferry.engine.engine import Engine
from seqferry.model.errors import StorageError, UsageError
from seqferry.model.locations import S3Location
from seqferry.model.messages.steps import COMMAND_LINE
from seqferry.model.models import OPERATION_CLEANUP, CheckedSpec, ResolvedSpec
from seqferry.places import paths
from seqferry.planning import decision, removal_rules
from seqferry.spec.build import draft_spec
from seqferry.spec.selection import parse_time
from seqferry.spec.validation import validate_spec

OLDER_THAN: Final = "7d"
"""An upload that is younger may still be under way, on another machine."""

MOST: Final = "most"
"""Option: nothing is aborted where there are more uploads."""

EXPECTED: Final = "expected"
"""Option: nothing is aborted where another number of uploads would be."""

OPTIONS: Final = frozenset({MOST, EXPECTED})

_PAGE: Final = 200

UploadsInUse = Callable[[Sequence[str]], set[str]]
"""Returns the upload ids, among the given ones, that belong to unfinished transfers."""


class StaleUpload(NamedTuple):
    """An upload that is to be aborted, or why it is not. ``bytes`` are those of its parts."""

    key: str
    upload_id: str
    initiated: float
    bytes: int
    kept: str | None = None


def build_cleanup_spec(
    place: str, *, older_than: str = OLDER_THAN, most: int | None = None, expected: int | None = None, **given: Any
) -> CheckedSpec:
    """The spec of ``cleanup PLACE``; ``given`` is for ``build_spec``.

    Raises:
        UsageError: the address or an option does not fit the command.
    """
    if paths.is_local(place):
        raise UsageError(
            f"'{place}' is a local path, and open uploads are in buckets; write s3://bucket/prefix/."
        ).about("source")
    # A placeholder for the target: no bucket can have the name "-".
    spec = draft_spec(place, "s3://-/", older_than=older_than, raw=True, **given)
    assert isinstance(spec.source, S3Location)
    found = replace(spec.source, anonymous=False)
    options = {name: value for name, value in ((MOST, most), (EXPECTED, expected)) if value is not None}
    return validate_spec(
        replace(
            spec,
            source=found,
            target=found,
            single=False,
            strip="",
            as_of=spec.as_of or time.time(),
            operation=OPERATION_CLEANUP,
            options=options,
        )
    )


def find_stale(engine: Engine, spec: ResolvedSpec, in_use: UploadsInUse) -> Iterator[list[StaleUpload]]:
    """Pages of the uploads that are old enough, with what they hold.

    Raises:
        StorageError: the uploads cannot be listed, or are more than may be aborted.
    """
    return _add_sizes(engine, spec, in_use, _old(engine, spec))


def check_count(pages: Iterator[list[StaleUpload]], spec: ResolvedSpec) -> Iterator[list[StaleUpload]]:
    """The same pages, after a check that their uploads are as many as the option ``EXPECTED`` says.

    Raises:
        StorageError: there are more or fewer; nothing was aborted.
    """
    expected: int | None = spec.options.get(EXPECTED)
    if expected is None:
        return pages
    held = list(pages)
    found = sum(one.kept is None for page in held for one in page)
    if (other := removal_rules.refuse_other_count(spec, "upload", expected=expected, found=found)) is not None:
        raise StorageError(other.reason, "person", other.code, "plan", True)
    return iter(held)


def _old(engine: Engine, spec: ResolvedSpec) -> list[OpenUpload]:
    until = parse_time(spec.filters.older_than or OLDER_THAN, spec.as_of or 0.0)
    found = [one for one in buckets.list_uploads(engine, spec.source) if 0 < one.initiated < until]
    most: int | None = spec.options.get(MOST)
    if most is not None and len(found) > most:
        why = f"{len(found):,} open uploads at {spec.source.uri} would be aborted, which needs a confirmation."
        raise StorageError(f"{why} {COMMAND_LINE.text('confirm_aborts')}", "person", "TooManyToAbort", "plan", True)
    return found


def _add_sizes(
    engine: Engine, spec: ResolvedSpec, in_use: UploadsInUse, found: Sequence[OpenUpload]
) -> Iterator[list[StaleUpload]]:
    for start in range(0, len(found), _PAGE):
        chunk = found[start : start + _PAGE]
        used = in_use([one.upload_id for one in chunk])
        sizes = buckets.upload_sizes(engine, spec.source, chunk)
        yield [
            StaleUpload(
                one.key,
                one.upload_id,
                one.initiated,
                size[0],
                decision.upload_in_use(one.key).reason if one.upload_id in used else None,
            )
            for one, size in zip(chunk, sizes, strict=True)
            if size is not None
        ]
