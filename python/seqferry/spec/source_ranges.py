"""Several sources of one transfer: each becomes a range of keys in what holds them all, and a spec of its own again.

What must stay true: each source means what it means alone, so that ``cp A B DST`` puts everything where ``cp A DST``
and ``cp B DST`` put it. Two that would put different objects at one key are refused (``collisions``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeVar

from seqferry.model.errors import UsageError
from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.models import KeyRange, TransferSpec
from seqferry.places import endpoints
from seqferry.spec import renaming

MAX_SOURCES: Final = 10_000

Spec = TypeVar("Spec", bound=TransferSpec)


def combine_sources(specs: Sequence[TransferSpec], written: Sequence[str]) -> TransferSpec:
    """One spec of several that differ in their sources only.

    A local folder without a last slash keeps its name below the target, as in cp -r and rsync; with one, what it holds
    goes there. The target of the specs is not read: the caller sets it.

    Args: ``written`` are the sources as they were given.

    Raises:
        UsageError: the sources are not in one bucket of one endpoint, or some are local and some are not.
    """
    if len(specs) > MAX_SOURCES:
        raise UsageError(f"At most {MAX_SOURCES:,} sources can be given; copy the folder above with --include.").about(
            "source"
        )
    first = specs[0].source
    is_local = isinstance(first, LocalFolder)
    for spec, text in zip(specs, written, strict=True):
        if isinstance(spec.source, LocalFolder) != is_local or (not is_local and _bucket(spec) != _bucket(specs[0])):
            raise UsageError(
                f"'{text}' lies elsewhere than '{written[0]}': several sources have to be in one bucket, or all on "
                "this machine. Use one command for each place."
            ).about("source")
    starts = [""] * len(specs)
    place = replace(first, key="")
    if isinstance(place, LocalFolder):
        place = replace(place, path=os.path.commonpath([spec.source.container for spec in specs]))
        starts = [_below(place.path, spec.source.container) for spec in specs]
    ranges = tuple(
        KeyRange(
            key=start + spec.source.key,
            strip=start + spec.strip,
            single=spec.single,
            pattern=None if spec.pattern is None else start + spec.pattern,
            into=_into(spec, text),
        )
        for spec, text, start in zip(specs, written, starts, strict=True)
    )
    first_key, last_key = min(one.key for one in ranges), max(one.key for one in ranges)
    same = (at for at, pair in enumerate(zip(first_key, last_key, strict=False)) if pair[0] != pair[1])
    shared = first_key[: next(same, len(first_key))]
    return replace(
        specs[0],
        source=replace(place, key=shared[: shared.rfind("/") + 1]),
        strip="",
        single=False,
        pattern=None,
        ranges=tuple(dict.fromkeys(ranges)),
    )


def _bucket(spec: TransferSpec) -> tuple[str, str | None]:
    assert isinstance(spec.source, S3Location)
    return spec.source.bucket, endpoints.resolve(spec.source)


def _below(above: str, folder: str) -> str:
    """Prefix of the keys of a folder, relative to a folder above it."""
    return f"{folder.rstrip('/')}/".removeprefix(f"{above.rstrip('/')}/")


def _into(spec: TransferSpec, written: str) -> str:
    if spec.single:
        return spec.source.key.rpartition("/")[2]
    if isinstance(spec.source, LocalFolder) and spec.pattern is None and not written.endswith(("/", "/.", "/..")):
        name = written.rpartition("/")[2]
        return "" if name in (".", "..") else f"{name}/"
    return ""


def split_sources(spec: Spec) -> list[Spec]:
    """A spec for each of the sources; the spec itself when it has one. Of a resolved one they are resolved."""
    if not spec.ranges:
        return [spec]
    return [
        spec.derive(
            source=replace(spec.source, key=one.key),
            target=replace(spec.target, key=spec.target.key + _rename(spec, one)),
            strip=one.strip,
            single=one.single,
            pattern=one.pattern,
            ranges=(),
            names=replace(spec.names, rename=()) if one.single else spec.names,
        )
        for one in spec.ranges
    ]


def _rename(spec: TransferSpec, one: KeyRange) -> str:
    return renaming.rename(spec.names.rename, one.into) if one.single else one.into
