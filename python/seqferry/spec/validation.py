"""Validation of specs: places, keys, texts and options, and what contradicts what, before anything is recorded."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, Literal, get_args, get_origin

from seqferry.model.errors import UsageError, errors_about
from seqferry.model.locations import LocalFolder, S3Location, Symlinks
from seqferry.model.models import MAX_ATTEMPTS, CheckedSpec, DataPath, TransferSpec
from seqferry.model.option_fields import option_fields
from seqferry.model.option_groups import (
    MAX_REQUEST_RATE,
    MAX_RESTORE_DAYS,
    MEMBERS,
    Filters,
)
from seqferry.places import endpoints
from seqferry.spec import properties, source_ranges, target_keys
from seqferry.spec.addresses import check_key, check_utf8_key, escape, parse_uri
from seqferry.spec.selection import Conditions, build_conditions, parse_age
from seqferry.spec.selection import check_conditions as check_selection

MIB: Final = 1024 * 1024

MIN_PART_SIZE: Final = 5 * MIB

MAX_PART_SIZE: Final = 5 * 1024 * MIB

MAX_COPY_THRESHOLD: Final = 5 * 1024 * MIB
"""Limits of S3: parts but the last are 5 MiB to 5 GiB, and one CopyObject takes up to 5 GiB."""

MAX_KEYS: Final = 100_000
"""Keys named one by one: the spec is read as a whole each time, and looking each up before the start takes minutes."""

_MAX_LISTED_BYTES: Final = 1536
"""With a prefix before it, a key has to fit into an index of PostgreSQL, which takes 2,704 bytes."""

SETTLE_SECONDS: Final = 2.0
"""Longest rest between two writes of an instrument, a download or a converter that is not taken for the end."""


def validate_spec(spec: TransferSpec) -> CheckedSpec:
    """Return ``spec`` when it makes sense; one that is checked comes back as it is.

    Raises:
        UsageError: a value is out of its range, or options contradict each other or the places.
    """
    if isinstance(spec, CheckedSpec):
        return spec
    _check_text(spec)
    _check_options(spec)
    _check_keys(spec)
    for one in source_ranges.split_sources(spec):
        if spec.ranges:
            validate_spec(one)
        else:
            _check_attempts(one)
            if one.kind.copies_versions:
                _check_history(one)
            _check_one_store(one)
    return CheckedSpec.of(spec)


def check_places(spec: TransferSpec) -> None:
    """Check what depends on endpoints and regions, of a spec that was checked before they were filled in.

    Raises:
        UsageError: a place cannot be one, or source and target overlap.
    """
    for side, place in (("source", spec.source), ("target", spec.target)):
        if isinstance(place, S3Location):
            check_place(place, side)
    for one in source_ranges.split_sources(spec):
        _check_one_store(one)


def _check_options(spec: TransferSpec) -> None:
    for member, kind in MEMBERS.items():
        _check_choices(kind, getattr(spec, member))
    for place in (spec.source, spec.target):
        if isinstance(place, LocalFolder):
            _check_choice("symlinks", place.symlinks, get_args(Symlinks))
    properties.check(spec)
    if spec.storage.storage_class is not None and isinstance(spec.target, LocalFolder):
        raise UsageError("--storage-class is for copies in S3, and the target is a local path; leave it out.").about(
            "storage_class"
        )
    if spec.speed.tpslimit is not None and not 1 <= spec.speed.tpslimit <= MAX_REQUEST_RATE:
        raise UsageError(
            f"--tpslimit {spec.speed.tpslimit}: from 1 to {MAX_REQUEST_RATE} requests can start per second."
        ).about("tpslimit")
    if spec.storage.md5 and not isinstance(spec.source, LocalFolder):
        raise UsageError(
            f"--md5 is for local files that are copied to S3, and the source is {escape(spec.source.uri)}; leave it "
            "out (what objects carry already travels with them)."
        ).about("md5")
    if spec.parts.part_size is not None and not MIN_PART_SIZE <= spec.parts.part_size <= MAX_PART_SIZE:
        raise UsageError(
            f"--part-size {spec.parts.part_size} is outside what S3 allows; choose between 5MiB ({MIN_PART_SIZE}) "
            f"and 5GiB ({MAX_PART_SIZE})."
        ).about("part_size")
    if spec.parts.copy_threshold is not None and not 0 <= spec.parts.copy_threshold <= MAX_COPY_THRESHOLD:
        raise UsageError(
            f"--copy-threshold {spec.parts.copy_threshold} is outside what S3 allows; choose between 0 and "
            f"5GiB ({MAX_COPY_THRESHOLD})."
        ).about("copy_threshold")
    check_selection(build_conditions(spec))
    _check_settle(spec.selection.settle)
    _check_restore(spec)
    if spec.inventory is not None:
        _check_inventory(spec)
    if spec.removal.delete and (spec.single or spec.keys is not None or spec.pattern is not None or spec.ranges):
        raise UsageError("--delete is for everything below a prefix or a folder, not for named objects.").about(
            "delete"
        )
    if spec.removal.max_delete is not None and (not spec.removal.delete or spec.removal.max_delete < 0):
        raise UsageError("--max-delete is the most objects that --delete may remove: give both, and 0 or more.").about(
            "max_delete"
        )


def _check_keys(spec: TransferSpec) -> None:
    if spec.keys is not None and not spec.keys:
        raise UsageError("The list of keys is empty; name at least one, or leave the list out to copy all.").about(
            "keys"
        )
    if spec.keys is not None and len(spec.keys) > MAX_KEYS:
        raise UsageError(
            f"The list names {len(spec.keys):,} keys, and at most {MAX_KEYS:,} can be named. "
            "Start several transfers, or leave the list out to copy all that is under the prefix."
        ).about("keys")
    target_keys.check(spec)
    with errors_about("source"):
        check_key(spec.source.key)
    with errors_about("target"):
        check_key(spec.target.key)
    with errors_about("keys"):
        for key in spec.targets:
            check_key(key)
        for key in spec.keys or ():
            _check_listed_key(key)


def _check_one_store(spec: TransferSpec) -> None:
    """Refuse a transfer within one bucket that would read or remove what it writes."""
    if is_same_store(spec) and not spec.kind.at_one_place:
        source, target = spec.source, spec.target
        if spec.kind.packs and spec.source.key == "" and not spec.single:
            raise UsageError(
                f"The archive {target.uri} would lie in what is packed, {source.uri}. Choose another bucket for it, or "
                "pack a prefix beside it."
            ).about("target")
        if (same := _find_self_copy(spec)) is not None:
            raise UsageError(f"Source and target are the same: {same}. Choose another target.").about("target")
        if spec.removal.delete and source.key.startswith(target.key):
            raise UsageError(
                f"The source {source.uri} lies inside the target {target.uri}, so that --delete would remove it. "
                "Choose a target beside it."
            ).about("target")
        lists = spec.kind.reads_below and spec.keys is None and not spec.single
        if lists and target.key.startswith(source.key):
            raise UsageError(
                f"The target {target.uri} lies inside the source {source.uri}, so the copy would list its own output. "
                "Choose a target outside of it."
            ).about("target")


def _find_self_copy(spec: TransferSpec) -> str | None:
    """The address of what source and target both are, of a transfer within one storage; None: they differ."""
    source, target = spec.source, spec.target
    if spec.targets and spec.keys is not None and not spec.single:
        # Each object has a target of its own, also within the prefix of its source.
        for key, version in zip(spec.keys, spec.versions or ("",) * len(spec.keys), strict=True):
            if not version and target_keys.target_key(spec, source.key + key) == source.key + key:
                return source.at(source.key + key)
        return None
    is_itself = source.key == target.key and (spec.single or spec.keys is None or spec.strip == source.key)
    # An earlier version of an object may become its current one.
    return source.uri if is_itself and not (spec.versions and all(spec.versions)) else None


def _check_history(spec: TransferSpec) -> None:
    """Refuse what makes holes in a history."""
    if is_local(spec):
        raise UsageError("--all-versions copies from S3 to S3: files of a disk have no versions.").about("all_versions")
    if spec.keys is not None or spec.ranges or spec.inventory is not None or spec.names.rename or spec.versions:
        raise UsageError("--all-versions takes one object, a wildcard or a prefix, and no list or new names.").about(
            "all_versions"
        )
    selects = spec.filters != Filters() or spec.selection.settle is not None
    if selects or spec.removal.delete or spec.selection.restore or spec.selection.if_exists != "same":
        raise UsageError(
            "--all-versions copies whole histories; leave out sizes, ages, --delete, --restore and --if-exists."
        ).about("all_versions")


def _check_attempts(spec: TransferSpec) -> None:
    for place in (spec.source, spec.target):
        attempts = place.attempts if isinstance(place, S3Location) else None
        if attempts is not None and not 1 <= attempts <= MAX_ATTEMPTS:
            raise UsageError(f"--attempts {attempts}: a request makes from 1 to {MAX_ATTEMPTS} attempts.").about(
                "attempts"
            )


def _check_inventory(spec: TransferSpec) -> None:
    """Refuse an inventory beside what lists the source in another way."""
    with errors_about("inventory"):
        _, key = parse_uri(spec.inventory or "")
    if not key.endswith("manifest.json"):
        raise UsageError(
            f"'{escape(spec.inventory or '')}' is not a manifest; give s3://bucket/.../manifest.json."
        ).about("inventory")
    if not isinstance(spec.source, S3Location) or spec.single or spec.keys is not None or spec.ranges:
        raise UsageError(
            "An inventory lists a bucket or a prefix in S3; give one of those as SRC, ending in a slash."
        ).about("inventory")
    if spec.removal.delete or not spec.kind.is_plain:
        raise UsageError(
            "An inventory is of yesterday or older: it lists what is copied, not what is removed or packed."
        ).about("inventory")


def is_same_store(spec: TransferSpec) -> bool:
    """True when source and target are in the same bucket of the same endpoint."""
    return not is_local(spec) and spec.source.container == spec.target.container and _on_one_endpoint(spec)


def is_local(spec: TransferSpec) -> bool:
    """True when the source or the target is on a disk of this machine."""
    return isinstance(spec.source, LocalFolder) or isinstance(spec.target, LocalFolder)


def data_path(spec: TransferSpec) -> DataPath:
    """Path of the bytes, as far as it is known before: where the storage refuses to copy, they are streamed."""
    return "copy" if streaming_reason(spec) is None else "stream"


def streaming_reason(spec: TransferSpec) -> str | None:
    """Reason why no storage can copy these bytes itself (server-side copy); None when one may."""
    for side, place in (("source", spec.source), ("target", spec.target)):
        if isinstance(place, LocalFolder):
            return f"the {side} is a local path"
    return None if _on_one_endpoint(spec) else "source and target are on different endpoints"


def _on_one_endpoint(spec: TransferSpec) -> bool:
    return len({endpoints.resolve(place) for place in (spec.source, spec.target) if isinstance(place, S3Location)}) == 1


def selects_everything(spec: TransferSpec) -> bool:
    """True when the whole source is selected: no condition and no list limits it."""
    conditions = build_conditions(spec)._replace(as_of=None, strip="", is_path=False)
    return spec.keys is None and spec.options.get("members") is None and conditions == Conditions()


def is_empty_archive(spec: TransferSpec, objects: int) -> bool:
    """True when a transfer of so many objects is that of an archive that holds none: it is done, and nothing missed."""
    return objects == 0 and spec.kind.unpacks and selects_everything(spec)


def _check_listed_key(key: str) -> None:
    """Refuse a key that cannot be recorded. One that is only too long for S3 fails by itself, beside the others."""
    if check_utf8_key(key) > _MAX_LISTED_BYTES:
        raise UsageError(
            f"'{key[:80]}...' has more than {_MAX_LISTED_BYTES} bytes and is no key; correct the list."
        ).about("keys")


def _check_text(spec: TransferSpec) -> None:
    """Refuse what is no text: JSON and command lines can hold halves of characters, which nothing can store."""
    for side, place in (("source", spec.source), ("target", spec.target)):
        if isinstance(place, LocalFolder):
            _check_utf8(f"The {side} folder", place.path, side)
            continue
        _check_utf8(f"The {side} bucket", place.bucket, side)
        for name, what, text in (
            ("endpoint_url", "endpoint URL", place.endpoint_url),
            ("region", "region", place.region),
            ("profile", "profile", place.profile),
        ):
            _check_utf8(f"The {side} {what}", text, *options_of_side(side, name))
        check_place(place, side)
    _check_utf8("--storage-class", spec.storage.storage_class, "storage_class")


def options_of_side(side: str, option: str) -> tuple[str, str]:
    """Names of the options that can set ``option`` of a side: its own, and that of both sides."""
    return f"{side}_{option}", option


def _check_utf8(what: str, text: str | None, *options: str) -> None:
    if text is not None and escape(text) != text:
        raise UsageError(f"{what} '{escape(text)}' is not valid UTF-8; check the encoding.").about(*options)


def _check_choice(name: str, word: str, choices: tuple[str, ...]) -> None:
    if word not in choices:
        option = "--" + name.replace("_", "-")
        raise UsageError(f"{option} '{escape(word)}' is not known; choose one of {', '.join(choices)}.").about(name)


def _check_restore(spec: TransferSpec) -> None:
    if not spec.selection.restore and (
        spec.selection.restore_days is not None or spec.selection.restore_tier is not None
    ):
        raise UsageError(
            "--restore-days and --restore-tier say how archived objects are restored: give --restore with them."
        ).about("restore_days", "restore_tier")
    if spec.selection.restore and isinstance(spec.source, LocalFolder):
        raise UsageError(
            "--restore is for archived objects in S3, and the source is a local path; leave it out."
        ).about("restore")
    if spec.selection.restore_days is not None and not 1 <= spec.selection.restore_days <= MAX_RESTORE_DAYS:
        raise UsageError(
            f"--restore-days {spec.selection.restore_days}: a restored copy is kept for 1 to {MAX_RESTORE_DAYS} days."
        ).about("restore_days")


def settle_seconds(spec: TransferSpec) -> float:
    """Settling time of files: one that was younger when it was opened is checked again after its copy.

    Returns:
        0.0 with ``--settle 0s``: the files are at rest.
    """
    return 0.0 if spec.selection.settle is not None and not parse_age(spec.selection.settle) else SETTLE_SECONDS


def _check_settle(written: str | None) -> None:
    if written is not None and parse_age(written) is None:
        raise UsageError(f"--settle '{escape(written)}' is not an age; write for example 60s or 5m.").about("settle")


def _check_choices(kind: type[Any], group: Any) -> None:
    """Refuse a word that is not one of those that its option takes."""
    for name, choices in _choices(kind):
        if (word := getattr(group, name)) is not None:
            _check_choice(name, word, choices)


@cache
def _choices(group: type[Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The options of a group that take one of several words, and these words."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for field in option_fields(group):
        kinds: tuple[Any, ...] = (field.kept, *get_args(field.kept))
        if words := tuple(word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)):
            found.append((field.name, words))
    return tuple(found)


def check_place(place: S3Location, side: str = "source") -> None:
    """Raise UsageError when the endpoint or the region of a place cannot be one; ``side`` is that of its options."""
    check_endpoint(place.endpoint_url, side)
    if place.request_payer not in (None, "requester"):
        raise UsageError(f"--request-payer '{escape(place.request_payer)}' is not known; write requester.").about(
            "request_payer"
        )
    if place.sse_c is not None and endpoints.is_open(place):
        raise UsageError(
            f"A key of SSE-C would go to {place.endpoint_url} in the clear, as storages refuse themselves; use https."
        ).about(*options_of_side(side, "endpoint_url"))
    if place.region is not None and not re.fullmatch(r"[A-Za-z0-9_-]+", place.region):
        raise UsageError(f"'{escape(place.region).strip()}' is not a region; write for example eu-central-1.").about(
            *options_of_side(side, "region")
        )


def check_endpoint(url: str | None, side: str) -> None:
    """Raise UsageError when the endpoint of the ``source`` or the ``target`` cannot be one."""
    if url is None:
        return
    options = options_of_side(side, "endpoint_url")
    fault = endpoints.find_fault(url)
    if fault == "credentials":
        raise UsageError("An endpoint URL must not hold credentials; use a profile or AWS_* variables for them.").about(
            *options
        )
    if fault is not None:
        raise UsageError(
            f"'{escape(url)}' is not an endpoint URL; write for example https://s3.example.org or http://host:9000."
        ).about(*options)
