"""Requests of a person made into a ``TransferSpec``: addresses, defaults, and what is refused before a start."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin

from seqferry.model.errors import UsageError
from seqferry.model.models import (
    MOST_ATTEMPTS,
    OPERATION_HISTORY,
    OPERATION_TRANSFER,
    CheckedSpec,
    DataPath,
    LocalFolder,
    Location,
    S3Location,
    Symlinks,
    TransferSpec,
)
from seqferry.model.option_fields import option_fields
from seqferry.model.option_groups import (
    MEMBERS,
    MOST_RESTORE_DAYS,
    MOST_STARTS,
    Filters,
    Names,
    Parts,
    Protection,
    Selection,
    Speed,
    Storage,
    part,
)
from seqferry.places import customer_keys, endpoints, paths
from seqferry.spec import properties, source_ranges, target_keys
from seqferry.spec.options import NOTHING_LISTED, Listed, Options
from seqferry.spec.selection import Conditions, age, conditions_of, has_wildcard, literal_start
from seqferry.spec.selection import check as check_selection

MIB: Final = 1024 * 1024
MIN_PART_SIZE: Final = 5 * MIB
MAX_PART_SIZE: Final = 5 * 1024 * MIB
MAX_COPY_THRESHOLD: Final = 5 * 1024 * MIB
"""Limits of S3: parts but the last are 5 MiB to 5 GiB, and one CopyObject takes up to 5 GiB."""

MAX_KEYS: Final = 100_000
"""Keys named one by one: the spec is read as a whole each time, and looking each up before the start takes minutes."""

MAX_KEY_BYTES: Final = 1024
_MAX_LISTED_BYTES: Final = 1536
"""With a prefix before it, a key has to fit into an index of PostgreSQL, which takes 2,704 bytes."""
SETTLE_SECONDS: Final = 2.0
"""Longest rest between two writes of an instrument, a download or a converter that is not taken for the end."""
_FORM: Final = "write s3://bucket/prefix/ or s3://bucket/key"


def is_s3_uri(text: str) -> bool:
    return text.startswith("s3://")


def parse_uri(text: str) -> tuple[str, str]:
    """Bucket and key (or prefix, or nothing) of ``s3://bucket/key``. Keys are taken as they are: nothing is decoded.

    Raises:
        UsageError: the text is no S3 address, or its bucket or key is not valid.
    """
    if not is_s3_uri(text):
        if text.lower().startswith("s3:"):
            meant = "s3://" + text[len("s3:") :].lstrip("/")
            raise UsageError(
                f"'{_shown(text)}' looks like a mistyped s3:// address (did you mean '{_shown(meant)}'?); {_FORM}."
            )
        form = "write the path alone, without file://" if text.lower().startswith("file://") else _FORM
        raise UsageError(f"'{_shown(text)}' is not an S3 address; {form}.")
    bucket, _, key = text.removeprefix("s3://").partition("/")
    if not bucket:
        raise UsageError(f"'{_shown(text)}' names no bucket; {_FORM}.")
    if "@" in bucket:
        # Not shown: it may hold a password.
        raise UsageError(f"An S3 address holds no credentials, and no bucket's name an @; {_FORM}.")
    if any(character.isspace() or character in "?#:\\" or not character.isprintable() for character in bucket):
        raise UsageError(f"'{_shown(text)}': '{_shown(bucket)}' cannot be the name of a bucket; {_FORM}.")
    _check_key(key)
    return bucket, key


def build_spec(source: str | Sequence[str], target: str, **given: Any) -> CheckedSpec:
    """The spec of ``cp SOURCE TARGET``; ``given`` is what ``draft_spec`` takes.

    Raises:
        UsageError: an address or a value is not valid, or options contradict each other.
    """
    return checked(draft_spec(source, target, **given))


def draft_spec(
    source: str | Sequence[str],
    target: str,
    *,
    keys: Sequence[str] | None = None,
    versions: Sequence[str] = (),
    targets: Sequence[str] = (),
    inventory: str | None = None,
    below: bool = False,
    allow_local: bool = False,
    preflight: bool = True,
    **options: Any,
) -> TransferSpec:
    """The spec of a request, not yet ``checked``. Several sources go below one target.

    ``keys`` names objects below the source; ``versions`` and ``targets`` say more of each of them. ``options`` are
    those of ``Options.of``. The rest is as in ``build_one``.

    Raises:
        UsageError: an address or a value is not valid.
    """
    if keys is not None and not (versions or targets):
        keys = list(dict.fromkeys(keys))
    listed = Listed(
        None if keys is None else tuple(keys),
        tuple(versions) if any(versions) else (),
        tuple(targets) if any(targets) else (),
        inventory,
    )
    build = partial(
        build_one,
        options=Options.of(options),
        listed=listed,
        below=below,
        allow_local=allow_local,
        preflight=preflight,
    )
    if isinstance(source, str):
        return build(source, target)
    if len(source) == 1:
        return build(source[0], target)
    if not source:
        raise UsageError("No source was given; name at least one.")
    if options.get("version_id") is not None:
        raise UsageError("--version-id is for one object; name several with their versions in --files-from FILE.csv.")
    if keys is not None or below:
        raise UsageError("Several sources are for cp alone: give one source for sync, and beside a list of keys.")
    return _of_several(source, target if target.endswith("/") else f"{target}/", build)


def _of_several(sources: Sequence[str], below: str, build: Callable[[str, str], TransferSpec]) -> TransferSpec:
    specs = [build(one, below) for one in sources]
    for spec, one in zip(specs, sources, strict=True):
        if isinstance(spec.source, S3Location) and not spec.source.key:
            raise UsageError(f"'{_shown(one)}' is a whole bucket, which holds the other sources; give it alone.")
    spec = source_ranges.combined(specs, sources)
    if isinstance(spec.target, LocalFolder):
        place = replace(spec.target, path=paths.target(below, None)[0], key="")
    else:
        place = replace(spec.target, key=parse_uri(below)[1])
    return replace(spec, target=place)


def build_one(
    source: str,
    target: str,
    options: Options,
    listed: Listed = NOTHING_LISTED,
    *,
    below: bool = False,
    allow_local: bool = False,
    preflight: bool = True,
) -> TransferSpec:
    """The spec of one source, not yet ``checked``.

    ``s3://b/run/`` and ``s3://b`` mean everything below; ``s3://b/key`` means that object. For everything below,
    the target is a prefix with or without its trailing slash; for one object, a target that ends in a slash (or a bare
    bucket) gets the object's name appended, and any other target is the exact key. Options of one side win over those
    of both. With ``below``, a source without its trailing slash means everything below as well. ``no_sign_request``
    leaves requests to the source unsigned (public data); those to the target are signed.

    With ``allow_local`` one side may be a path of this machine, which is looked at: a folder means everything below it,
    with or without its trailing slash, and one object that is copied to a folder keeps its name. Only for
    callers that may read and write what this process may.

    ``*`` and ``?`` in the source select objects, unless ``raw``; what follows the last slash before them is the name
    below the target.

    ``sse_c_key`` names the key of the target, or of the source where the target is a disk; ``sse_c_copy_source_key``
    that of the source of a copy.

    Raises:
        UsageError: an address or a value is not valid, or options contradict each other.
    """
    is_local = [paths.is_local(text) for text in (source, target)]
    _check_sides(source, target, is_local, allow_local=allow_local)
    selects = has_wildcard(source) and not options.selection.raw and not (is_local[0] and os.path.lexists(source))
    if selects and (below or listed.keys is not None):
        raise UsageError(
            f"'{_shown(source)}' holds a wildcard, which selects objects by itself. For sync give the prefix and "
            "--include or --exclude; beside a list of keys leave the wildcard out; --raw takes * and ? as they are."
        )
    below = below or listed.keys is not None
    folder, buckets = _places(options, into_local=is_local[1])
    if is_local[0]:
        read = _read_folder(source, folder, selects=selects, below=below)
    else:
        read = _read_bucket(source, buckets.source, selects=selects, below=below)
    key = read.place.key
    single = read.pattern is None and key != "" and not key.endswith("/")
    name = key.rsplit("/", 1)[-1] if single else None
    versions = listed.versions
    if (version_id := options.versions.version_id) is not None:
        if is_local[0] or not single or listed.keys is not None or version_id == "":
            raise UsageError("--version-id copies that version of one object: name its key in S3, and nothing else.")
        versions = (version_id,)
    if options.protection.sse_c_copy_source_key is not None and any(is_local):
        raise UsageError("--sse-c-copy-source-key is for copies between S3 places; give --sse-c-key alone.")
    if is_local[1]:
        path, target_key = paths.target(target, name)
        place: Location = replace(folder, path=path, key=target_key)
    else:
        place = _written_bucket(target, buckets.target, name)
    spec = TransferSpec(
        source=read.place,
        target=place,
        strip=read.strip,
        single=single,
        keys=listed.keys,
        versions=versions,
        targets=listed.targets,
        inventory=listed.inventory,
        pattern=read.pattern,
        selection=part(Selection, options.selection),
        filters=options.filters,
        names=part(Names, options.names),
        removal=options.removal,
        speed=part(Speed, options.speed),
        parts=part(Parts, options.parts),
        storage=part(Storage, options.storage),
        protection=part(Protection, options.protection),
        attributes=options.attributes,
        as_of=time.time() if _counts_ages(options) else None,
        preflight=preflight,
        operation=OPERATION_HISTORY if options.versions.all_versions else OPERATION_TRANSFER,
    )
    return with_attempts(spec, options.speed.attempts)


def of_operation(draft: TransferSpec, operation: str) -> TransferSpec:
    """The draft of a copy as that of another operation.

    Raises:
        UsageError: it asks for all versions, which only copies have.
    """
    made = replace(draft, operation=operation)
    if draft.kind.of_versions:
        raise UsageError(f"--all-versions is for cp; {made.kind.command} takes current versions. Leave it out.")
    return made


def _check_sides(source: str, target: str, is_local: Sequence[bool], *, allow_local: bool) -> None:
    if any(is_local) and not allow_local:
        raise UsageError(
            f"'{_shown(source if is_local[0] else target)}' is a local path, and those are taken on the command line "
            f"only; {_FORM}."
        )
    if all(is_local):
        raise UsageError(
            f"'{_shown(source)}' and '{_shown(target)}' are both local paths; one side has to be s3://bucket/prefix/ "
            "(within a machine use cp or rsync)."
        )


class _Buckets(NamedTuple):
    """Places in S3 without a bucket, with what the options say of each side."""

    source: S3Location
    target: S3Location


class _Source(NamedTuple):
    """A source as it was written: its place, the wildcard in it, and the start of its keys that no target has."""

    place: Location
    pattern: str | None
    strip: str


def _places(options: Options, *, into_local: bool) -> tuple[LocalFolder, _Buckets]:
    """A folder and buckets as the options describe them, without a path or a name."""
    of, protection = options.endpoints, options.protection
    source = S3Location(
        bucket="",
        endpoint_url=of.source_endpoint_url or of.endpoint_url,
        region=of.source_region or of.region,
        profile=of.source_profile or of.profile,
        anonymous=of.no_sign_request,
        request_payer=protection.request_payer,
    )
    target = replace(
        source,
        endpoint_url=of.target_endpoint_url or of.endpoint_url,
        region=of.target_region or of.region,
        profile=of.target_profile or of.profile,
        anonymous=False,
    )
    _check_endpoint(source.endpoint_url)
    _check_endpoint(target.endpoint_url)
    key_of_source = protection.sse_c_key if into_local else protection.sse_c_copy_source_key
    source = replace(source, sse_c=customer_keys.named(key_of_source))
    folder = LocalFolder(
        path="",
        symlinks=options.selection.symlinks,
        empty_directories=options.selection.empty_directories,
        page_cache=options.parts.page_cache,
        preserve_permissions=options.storage.preserve_permissions,
    )
    return folder, _Buckets(source, replace(target, sse_c=customer_keys.named(protection.sse_c_key)))


def _read_folder(source: str, folder: LocalFolder, *, selects: bool, below: bool) -> _Source:
    pattern = None
    if selects:
        source, pattern = _split_pattern(source)
    path, key = paths.source(source)
    if below and key:
        raise UsageError(f"'{source}' is a file, and only folders and prefixes can be kept in sync; use cp.")
    return _Source(replace(folder, path=path, key=key), pattern, strip=key)


def _read_bucket(source: str, place: S3Location, *, selects: bool, below: bool) -> _Source:
    bucket, key = parse_uri(source if not below or source.endswith("/") else f"{source}/")
    if not selects:
        return _Source(replace(place, bucket=bucket, key=key), None, strip=key)
    start = literal_start(key)
    return _Source(replace(place, bucket=bucket, key=start), key, strip=start[: start.rfind("/") + 1])


def _written_bucket(target: str, place: S3Location, name: str | None) -> S3Location:
    """The place of a target, below which ``name`` is the one object; None: there are several."""
    bucket, key = parse_uri(target)
    if key == "" or key.endswith("/"):
        key += name or ""
    elif name is None:
        key += "/"
    return replace(place, bucket=bucket, key=key)


def _counts_ages(options: Options) -> bool:
    of = options.filters
    return any(age is not None for age in (of.newer_than, of.older_than, options.selection.settle))


def with_attempts(spec: TransferSpec, attempts: int | None) -> TransferSpec:
    """The spec with the number of attempts of each request on record; None: as the working process is set."""
    if attempts is None:
        return spec
    source, target = (
        replace(place, attempts=attempts) if isinstance(place, S3Location) else place
        for place in (spec.source, spec.target)
    )
    return replace(spec, source=source, target=target)


def build_mirror_spec(
    src_bucket: str, src_prefix: str, src_keys: list[str] | None, dst_bucket: str, dst_prefix: str, **given: Any
) -> TransferSpec:
    """The spec of S3Mirror's ``/start_transfer``: prefixes are plain strings, and ``src_keys`` follow ``src_prefix``.

    ``given`` are options that ``draft_spec`` takes.

    Raises:
        UsageError: as ``build_spec``.
    """
    given.pop("recursive", None)  # a prefix needs no slash here
    for bucket in (src_bucket, dst_bucket):
        parse_uri(f"s3://{bucket}")
        if "/" in bucket:
            raise UsageError(f"'{_shown(bucket)}' cannot be the name of a bucket.")
    spec = draft_spec(f"s3://{src_bucket}/", f"s3://{dst_bucket}/", **given)
    return checked(
        replace(
            spec,
            source=replace(spec.source, key=src_prefix),
            target=replace(spec.target, key=dst_prefix),
            strip=src_prefix,
            # The same key twice would be the same object twice.
            keys=None if src_keys is None else tuple(dict.fromkeys(src_keys)),
        )
    )


def checked(spec: TransferSpec) -> CheckedSpec:
    """Return ``spec`` when it makes sense; one that is checked comes back as it is.

    Raises:
        UsageError: a value is out of its range, or options contradict each other or the places.
    """
    if isinstance(spec, CheckedSpec):
        return spec
    _check_text(spec)
    _check_options(spec)
    _check_keys(spec)
    for one in source_ranges.parts(spec):
        if spec.ranges:
            checked(one)
        else:
            _check_attempts(one)
            if one.kind.of_versions:
                _check_history(one)
            _check_one_store(one)
    return CheckedSpec.of(spec)


def check_places(spec: TransferSpec) -> None:
    """Check what depends on endpoints and regions, of a spec that was checked before they were filled in.

    Raises:
        UsageError: a place cannot be one, or source and target overlap.
    """
    for place in (spec.source, spec.target):
        if isinstance(place, S3Location):
            check_place(place)
    for one in source_ranges.parts(spec):
        _check_one_store(one)


def _check_options(spec: TransferSpec) -> None:
    for member, kind in MEMBERS.items():
        _check_choices(kind, getattr(spec, member))
    for place in (spec.source, spec.target):
        if isinstance(place, LocalFolder):
            _check_choice("--symlinks", place.symlinks, get_args(Symlinks))
    properties.check(spec)
    if spec.storage.storage_class is not None and isinstance(spec.target, LocalFolder):
        raise UsageError("--storage-class is for copies in S3, and the target is a local path; leave it out.")
    if spec.speed.tpslimit is not None and not 1 <= spec.speed.tpslimit <= MOST_STARTS:
        raise UsageError(f"--tpslimit {spec.speed.tpslimit}: from 1 to {MOST_STARTS} requests can start per second.")
    if spec.storage.md5 and not isinstance(spec.source, LocalFolder):
        raise UsageError(
            f"--md5 is for local files that are copied to S3, and the source is {_shown(spec.source.uri)}; leave it "
            "out (what objects carry already travels with them)."
        )
    if spec.parts.part_size is not None and not MIN_PART_SIZE <= spec.parts.part_size <= MAX_PART_SIZE:
        raise UsageError(
            f"--part-size {spec.parts.part_size} is outside what S3 allows; choose between 5MiB ({MIN_PART_SIZE}) "
            f"and 5GiB ({MAX_PART_SIZE})."
        )
    if spec.parts.copy_threshold is not None and not 0 <= spec.parts.copy_threshold <= MAX_COPY_THRESHOLD:
        raise UsageError(
            f"--copy-threshold {spec.parts.copy_threshold} is outside what S3 allows; choose between 0 and "
            f"5GiB ({MAX_COPY_THRESHOLD})."
        )
    check_selection(conditions_of(spec))
    _check_settle(spec.selection.settle)
    _check_restore(spec)
    if spec.inventory is not None:
        _check_inventory(spec)
    if spec.removal.delete and (spec.single or spec.keys is not None or spec.pattern is not None or spec.ranges):
        raise UsageError("--delete is for everything below a prefix or a folder, not for named objects.")
    if spec.removal.max_delete is not None and (not spec.removal.delete or spec.removal.max_delete < 0):
        raise UsageError("--max-delete is the most objects that --delete may remove: give both, and 0 or more.")


def _check_keys(spec: TransferSpec) -> None:
    if spec.keys is not None and not spec.keys:
        raise UsageError("The list of keys is empty; name at least one, or leave the list out to copy all.")
    if spec.keys is not None and len(spec.keys) > MAX_KEYS:
        raise UsageError(
            f"The list names {len(spec.keys):,} keys, and at most {MAX_KEYS:,} can be named at once. "
            "Start several transfers, or leave the list out to copy all that is under the prefix."
        )
    target_keys.check(spec)
    for key in (spec.source.key, spec.target.key, *spec.targets):
        _check_key(key)
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
            )
        if (same := _copied_onto_itself(spec)) is not None:
            raise UsageError(f"Source and target are the same: {same}. Choose another target.")
        if spec.removal.delete and source.key.startswith(target.key):
            raise UsageError(
                f"The source {source.uri} lies inside the target {target.uri}, so that --delete would remove it. "
                "Choose a target beside it."
            )
        lists = spec.kind.reads_below and spec.keys is None and not spec.single
        if lists and target.key.startswith(source.key):
            raise UsageError(
                f"The target {target.uri} lies inside the source {source.uri}, so the copy would list its own output. "
                "Choose a target outside of it."
            )


def _copied_onto_itself(spec: TransferSpec) -> str | None:
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
        raise UsageError("--all-versions copies from S3 to S3: files of a disk have no versions.")
    if spec.keys is not None or spec.ranges or spec.inventory is not None or spec.names.rename or spec.versions:
        raise UsageError("--all-versions takes one object, a wildcard or a prefix, and no list or new names.")
    selects = spec.filters != Filters() or spec.selection.settle is not None
    if selects or spec.removal.delete or spec.selection.restore or spec.selection.if_exists != "same":
        raise UsageError(
            "--all-versions copies whole histories; leave out sizes, ages, --delete, --restore and --if-exists."
        )


def _check_attempts(spec: TransferSpec) -> None:
    for place in (spec.source, spec.target):
        attempts = place.attempts if isinstance(place, S3Location) else None
        if attempts is not None and not 1 <= attempts <= MOST_ATTEMPTS:
            raise UsageError(f"--attempts {attempts}: from 1 to {MOST_ATTEMPTS} tries of a request make sense.")


def _check_inventory(spec: TransferSpec) -> None:
    """Refuse an inventory beside what lists the source in another way."""
    _, key = parse_uri(spec.inventory or "")
    if not key.endswith("manifest.json"):
        raise UsageError(f"'{_shown(spec.inventory or '')}' is not a manifest; give s3://bucket/.../manifest.json.")
    if not isinstance(spec.source, S3Location) or spec.single or spec.keys is not None or spec.ranges:
        raise UsageError("An inventory lists a bucket or a prefix in S3; give one of those as SRC, ending in a slash.")
    if spec.removal.delete or not spec.kind.is_plain:
        raise UsageError(
            "An inventory is of yesterday or older: it lists what is copied, not what is removed or packed."
        )


def is_same_store(spec: TransferSpec) -> bool:
    """True when source and target are in the same bucket of the same endpoint."""
    return not is_local(spec) and spec.source.container == spec.target.container and _on_one_endpoint(spec)


def is_local(spec: TransferSpec) -> bool:
    """True when the source or the target is on a disk of this machine."""
    return isinstance(spec.source, LocalFolder) or isinstance(spec.target, LocalFolder)


def data_path(spec: TransferSpec) -> DataPath:
    """Path of the bytes, as far as it is known before: where the storage refuses to copy, they are streamed."""
    return "copy" if why_streamed(spec) is None else "stream"


def why_streamed(spec: TransferSpec) -> str | None:
    """Reason why no storage can copy these bytes itself; None when one can be asked to."""
    for side, place in (("source", spec.source), ("target", spec.target)):
        if isinstance(place, LocalFolder):
            return f"the {side} is a local path"
    return None if _on_one_endpoint(spec) else "source and target are on different endpoints"


def _on_one_endpoint(spec: TransferSpec) -> bool:
    return len({endpoints.of(place) for place in (spec.source, spec.target) if isinstance(place, S3Location)}) == 1


def takes_all(spec: TransferSpec) -> bool:
    """True when all of the source is wanted: no condition selects, and no list names."""
    conditions = conditions_of(spec)._replace(as_of=None, strip="", is_path=False)
    return spec.keys is None and spec.options.get("members") is None and conditions == Conditions()


def is_empty_archive(spec: TransferSpec, objects: int) -> bool:
    """True when a transfer of so many objects is that of an archive that holds none: it is done, and nothing missed."""
    return objects == 0 and spec.kind.unpacks and takes_all(spec)


def _split_pattern(path: str) -> tuple[str, str]:
    """The folder above the first wildcard of a path, and the wildcard below it."""
    start = path[: literal_start(path).rfind("/") + 1]
    return start or ".", path[len(start) :]


def _check_key(key: str) -> None:
    if _check_utf8_key(key) > MAX_KEY_BYTES:
        raise UsageError(f"'{key[:80]}...' is longer than the {MAX_KEY_BYTES} bytes that S3 allows for a key.")


def _check_listed_key(key: str) -> None:
    """Refuse a key that cannot be recorded. One that is only too long for S3 fails by itself, beside the others."""
    if _check_utf8_key(key) > _MAX_LISTED_BYTES:
        raise UsageError(f"'{key[:80]}...' has more than {_MAX_LISTED_BYTES} bytes and is no key; correct the list.")


def _check_utf8_key(key: str) -> int:
    try:
        return len(key.encode("utf-8"))
    except UnicodeEncodeError:
        raise UsageError(
            f"'{_shown(key)}' is not valid UTF-8, and S3 keys are; check the terminal's encoding."
        ) from None


def _check_text(spec: TransferSpec) -> None:
    """Refuse what is no text: JSON and command lines can hold halves of characters, which nothing can store."""
    for side, place in (("source", spec.source), ("target", spec.target)):
        if isinstance(place, LocalFolder):
            _check_utf8(f"The {side} folder", place.path)
            continue
        _check_utf8(f"The {side} bucket", place.bucket)
        _check_utf8(f"The {side} endpoint URL", place.endpoint_url)
        _check_utf8(f"The {side} region", place.region)
        _check_utf8(f"The {side} profile", place.profile)
        check_place(place)
    _check_utf8("--storage-class", spec.storage.storage_class)


def _check_utf8(what: str, text: str | None) -> None:
    if text is not None and _shown(text) != text:
        raise UsageError(f"{what} '{_shown(text)}' is not valid UTF-8; check the encoding.")


def _shown(text: str) -> str:
    """``text`` with escapes for what is not valid UTF-8, so that it can be printed and sent."""
    return text.encode("utf-8", "backslashreplace").decode()


def _check_choice(option: str, word: str, choices: tuple[str, ...]) -> None:
    if word not in choices:
        raise UsageError(f"{option} '{_shown(word)}' is not known; choose one of {', '.join(choices)}.")


def _check_restore(spec: TransferSpec) -> None:
    if not spec.selection.restore and (
        spec.selection.restore_days is not None or spec.selection.restore_tier is not None
    ):
        raise UsageError("--days and --tier say how archived objects are restored: give --restore with them.")
    if spec.selection.restore and isinstance(spec.source, LocalFolder):
        raise UsageError("--restore is for archived objects in S3, and the source is a local path; leave it out.")
    if spec.selection.restore_days is not None and not 1 <= spec.selection.restore_days <= MOST_RESTORE_DAYS:
        raise UsageError(
            f"--days {spec.selection.restore_days}: a restored copy is kept for 1 to {MOST_RESTORE_DAYS} days."
        )


def settle_seconds(spec: TransferSpec) -> float:
    """Settling time of files: one that was younger when it was opened is looked at again after its copy.

    Returns:
        0.0 with ``--settle 0s``: the files are at rest.
    """
    return 0.0 if spec.selection.settle is not None and not age(spec.selection.settle) else SETTLE_SECONDS


def _check_settle(written: str | None) -> None:
    if written is not None and age(written) is None:
        raise UsageError(f"--settle '{_shown(written)}' is no age; write for example 60s or 5m.")


def _check_choices(kind: type[Any], group: Any) -> None:
    """Refuse a word that is not one of those that its option takes."""
    for name, choices in _choices(kind):
        if (word := getattr(group, name)) is not None:
            _check_choice("--" + name.replace("_", "-"), word, choices)


@cache
def _choices(group: type[Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The options of a group that take one of several words, and these words."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for field in option_fields(group):
        kinds: tuple[Any, ...] = (field.kept, *get_args(field.kept))
        if words := tuple(word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)):
            found.append((field.name, words))
    return tuple(found)


def check_place(place: S3Location) -> None:
    """Raise UsageError when the place's endpoint or region cannot be one."""
    _check_endpoint(place.endpoint_url)
    if place.request_payer not in (None, "requester"):
        raise UsageError(f"--request-payer '{_shown(place.request_payer)}' is not known; write requester.")
    if place.sse_c is not None and endpoints.is_open(place):
        raise UsageError(
            f"A key of SSE-C would go to {place.endpoint_url} in the clear, as storages refuse themselves; use https."
        )
    if place.region is not None and not re.fullmatch(r"[A-Za-z0-9_-]+", place.region):
        raise UsageError(f"'{_shown(place.region).strip()}' is not a region; write for example eu-central-1.")


def _check_endpoint(url: str | None) -> None:
    if url is None:
        return
    fault = endpoints.fault(url)
    if fault == "credentials":
        raise UsageError("An endpoint URL must not hold credentials; use a profile or AWS_* variables for them.")
    if fault is not None:
        raise UsageError(
            f"'{_shown(url)}' is not an endpoint URL; write for example https://s3.example.org or http://host:9000."
        )
