"""Requests of a person made into a ``TransferSpec``: addresses, defaults, and what is refused before a start."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from seqferry.model.errors import UsageError, errors_about
from seqferry.model.locations import LocalFolder, Location, S3Location
from seqferry.model.models import OPERATION_HISTORY, OPERATION_MOVE, OPERATION_TRANSFER, CheckedSpec, TransferSpec
from seqferry.model.option_groups import (
    Names,
    Parts,
    Selection,
    Speed,
    Storage,
    narrow_group,
)
from seqferry.places import customer_keys, paths
from seqferry.spec import source_ranges
from seqferry.spec.addresses import FORM, escape, parse_uri
from seqferry.spec.option_groups import AccessOptions
from seqferry.spec.options import NOTHING_LISTED, ListedObjects, Options
from seqferry.spec.selection import has_wildcard, literal_prefix
from seqferry.spec.validation import check_endpoint, validate_spec


def build_spec(source: str | Sequence[str], target: str, **given: Any) -> CheckedSpec:
    """The spec of ``cp SOURCE TARGET``; ``given`` is what ``draft_spec`` takes.

    Raises:
        UsageError: an address or a value is not valid, or options contradict each other.
    """
    return validate_spec(draft_spec(source, target, **given))


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
    """The spec of a request, not yet checked (``validate_spec``). Several sources go below one target.

    ``keys`` names objects below the source; ``versions`` and ``targets`` say more of each of them. ``options`` are
    those of ``Options.of``. The rest is as in ``build_one``.

    Raises:
        UsageError: an address or a value is not valid.
    """
    if keys is not None and not (versions or targets):
        keys = list(dict.fromkeys(keys))
    listed = ListedObjects(
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
        raise UsageError("No source was given; name at least one.").about("source")
    if options.get("version_id") is not None:
        raise UsageError(
            "--version-id is for one object; name several with their versions in --files-from FILE.csv."
        ).about("version_id")
    if keys is not None or below:
        raise UsageError("Only cp takes several sources: give one source for sync, or with a list of keys.").about(
            "source"
        )
    return _of_several(source, target if target.endswith("/") else f"{target}/", build)


def _of_several(sources: Sequence[str], below: str, build: Callable[[str, str], TransferSpec]) -> TransferSpec:
    specs = [build(one, below) for one in sources]
    for spec, one in zip(specs, sources, strict=True):
        if isinstance(spec.source, S3Location) and not spec.source.key:
            raise UsageError(f"'{escape(one)}' is a whole bucket, which holds the other sources; give it alone.").about(
                "source"
            )
    spec = source_ranges.combine_sources(specs, sources)
    if isinstance(spec.target, LocalFolder):
        place = replace(spec.target, path=paths.parse_target(below, None)[0], key="")
    else:
        place = replace(spec.target, key=parse_uri(below)[1])
    return replace(spec, target=place)


def build_one(
    source: str,
    target: str,
    options: Options,
    listed: ListedObjects = NOTHING_LISTED,
    *,
    below: bool = False,
    allow_local: bool = False,
    preflight: bool = True,
) -> TransferSpec:
    """The spec of one source, not yet checked (``validate_spec``).

    ``s3://b/run/`` and ``s3://b`` mean everything below; ``s3://b/key`` means that object. For everything below,
    the target is a prefix with or without its trailing slash; for one object, a target that ends in a slash (or a bare
    bucket) gets the object's name appended, and any other target is the exact key. Options of one side win over those
    of both. With ``below``, a source without its trailing slash means everything below as well. ``no_sign_request``
    leaves requests to the source unsigned (public data); those to the target are signed.

    With ``allow_local`` one side may be a path of this machine, which is checked: a folder means everything below it,
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
            f"'{escape(source)}' holds a wildcard, which selects objects by itself. For sync give the prefix and "
            "--include or --exclude; beside a list of keys leave the wildcard out; --raw takes * and ? as they are."
        ).about("source")
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
            raise UsageError(
                "--version-id copies that version of one object: name its key in S3, and nothing else."
            ).about("version_id")
        versions = (version_id,)
    if options.access.sse_c_copy_source_key is not None and any(is_local):
        raise UsageError("--sse-c-copy-source-key is for copies between S3 places; give --sse-c-key alone.").about(
            "sse_c_copy_source_key"
        )
    if is_local[1]:
        with errors_about("target"):
            path, target_key = paths.parse_target(target, name)
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
        selection=narrow_group(Selection, options.selection),
        filters=options.filters,
        names=narrow_group(Names, options.names),
        removal=options.removal,
        speed=narrow_group(Speed, options.speed),
        parts=narrow_group(Parts, options.parts),
        storage=narrow_group(Storage, options.storage),
        protection=options.protection,
        attributes=options.attributes,
        as_of=time.time() if _counts_ages(options) else None,
        preflight=preflight,
        operation=OPERATION_HISTORY if options.versions.all_versions else OPERATION_TRANSFER,
    )
    return with_attempts(spec, options.speed.attempts)


def with_operation(draft: TransferSpec, operation: str) -> TransferSpec:
    """The draft of a copy as that of another operation.

    Raises:
        UsageError: it asks for all versions, which only copies have.
    """
    made = replace(draft, operation=operation)
    if draft.kind.copies_versions:
        raise UsageError(f"--all-versions is for cp; {made.kind.command} takes current versions. Leave it out.").about(
            "all_versions"
        )
    return made


def _check_sides(source: str, target: str, is_local: Sequence[bool], *, allow_local: bool) -> None:
    if any(is_local) and not allow_local:
        raise UsageError(
            f"'{escape(source if is_local[0] else target)}' is a local path, and those are taken on the command line "
            f"only; {FORM}."
        ).about("source" if is_local[0] else "target")
    if all(is_local):
        raise UsageError(
            f"'{escape(source)}' and '{escape(target)}' are both local paths; one side has to be s3://bucket/prefix/ "
            "(within a machine use cp or rsync)."
        ).about("target")


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
    of, access = options.endpoints, options.access
    source = S3Location(
        bucket="",
        endpoint_url=of.source_endpoint_url or of.endpoint_url,
        region=of.source_region or of.region,
        profile=of.source_profile or of.profile,
        anonymous=of.no_sign_request,
        request_payer=access.request_payer,
    )
    target = replace(
        source,
        endpoint_url=of.target_endpoint_url or of.endpoint_url,
        region=of.target_region or of.region,
        profile=of.target_profile or of.profile,
        anonymous=False,
    )
    check_endpoint(source.endpoint_url, "source")
    check_endpoint(target.endpoint_url, "target")
    key_of_source = "sse_c_key" if into_local else "sse_c_copy_source_key"
    source = replace(source, sse_c=_customer_key(access, key_of_source))
    folder = LocalFolder(
        path="",
        symlinks=options.selection.symlinks,
        empty_directories=options.selection.empty_directories,
        page_cache=options.parts.page_cache,
        preserve_permissions=options.storage.preserve_permissions,
    )
    return folder, _Buckets(source, replace(target, sse_c=_customer_key(access, "sse_c_key")))


def _customer_key(access: AccessOptions, name: str) -> str | None:
    with errors_about(name):
        return customer_keys.key_location(getattr(access, name))


def _read_folder(source: str, folder: LocalFolder, *, selects: bool, below: bool) -> _Source:
    pattern = None
    if selects:
        source, pattern = _split_pattern(source)
    with errors_about("source"):
        path, key = paths.parse_source(source)
    if below and key:
        raise UsageError(f"'{source}' is a file, and only folders and prefixes can be kept in sync; use cp.").about(
            "source"
        )
    return _Source(replace(folder, path=path, key=key), pattern, strip=key)


def _read_bucket(source: str, place: S3Location, *, selects: bool, below: bool) -> _Source:
    with errors_about("source"):
        bucket, key = parse_uri(source if not below or source.endswith("/") else f"{source}/")
    if not selects:
        return _Source(replace(place, bucket=bucket, key=key), None, strip=key)
    start = literal_prefix(key)
    return _Source(replace(place, bucket=bucket, key=start), key, strip=start[: start.rfind("/") + 1])


def _written_bucket(target: str, place: S3Location, name: str | None) -> S3Location:
    """The place of a target, below which ``name`` is the one object; None: there are several."""
    with errors_about("target"):
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
    for side, bucket in (("source", src_bucket), ("target", dst_bucket)):
        with errors_about(side):
            parse_uri(f"s3://{bucket}")
            if "/" in bucket:
                raise UsageError(f"'{escape(bucket)}' cannot be the name of a bucket.")
    spec = draft_spec(f"s3://{src_bucket}/", f"s3://{dst_bucket}/", **given)
    return validate_spec(
        replace(
            spec,
            source=replace(spec.source, key=src_prefix),
            target=replace(spec.target, key=dst_prefix),
            strip=src_prefix,
            # The same key twice would be the same object twice.
            keys=None if src_keys is None else tuple(dict.fromkeys(src_keys)),
        )
    )


def _split_pattern(path: str) -> tuple[str, str]:
    """The folder above the first wildcard of a path, and the wildcard below it."""
    start = path[: literal_prefix(path).rfind("/") + 1]
    return start or ".", path[len(start) :]


def as_move(spec: TransferSpec) -> CheckedSpec:
    """Spec of a move, checked, from the draft of a copy.

    Raises:
        UsageError: its source cannot be removed.
    """
    if isinstance(spec.source, S3Location) and spec.source.anonymous:
        raise UsageError("mv removes objects at the source, which --no-sign-request does not allow; use cp.").about(
            "no_sign_request"
        )
    if isinstance(spec.source, LocalFolder) and spec.source.symlinks == "follow":
        # What a link leads to is not removed for it.
        spec = replace(spec, source=replace(spec.source, symlinks="skip"))
    return validate_spec(with_operation(spec, OPERATION_MOVE))
