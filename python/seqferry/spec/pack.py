"""The spec of ``pack``: one archive or its shards, and the keys that they get.

What must stay true: a spec of ``pack`` has the key of the archive as its target key, and all below a prefix or a folder
as its source.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any, Final

from seqferry.model.errors import UsageError, errors_about
from seqferry.model.locations import LocalFolder
from seqferry.model.models import OPERATION_PACK, CheckedSpec, TransferSpec
from seqferry.places import paths
from seqferry.spec.addresses import parse_uri
from seqferry.spec.build import draft_spec, with_operation
from seqferry.spec.validation import validate_spec

SPLIT: Final = "split"
"""Option: bytes of a shard, in plain numbers."""

NO_INDEX: Final = "no_index"
"""Option: no sidecar index is written."""

OPTIONS: Final = frozenset({SPLIT, NO_INDEX})
_SMALLEST_SHARD: Final = 1024 * 1024
_LARGEST_SHARD: Final = 50 * 1000**4


def build_pack_spec(
    source: str | Sequence[str], target: str, *, split: int | None = None, no_index: bool = False, **given: Any
) -> CheckedSpec:
    """The spec of ``pack SOURCE TARGET``. ``given`` is what ``build_spec`` takes as well.

    SOURCE is a prefix or a folder, with or without its last slash. TARGET is the key of the archive, or a local file.

    Raises:
        UsageError: the source is no single prefix or folder, or an option does not fit an archive.
    """
    if not isinstance(source, str):
        raise UsageError(
            "An archive is made of one prefix or folder; name its parts with --files-from or --include."
        ).about("source")
    if given.get("symlinks") == "keep":
        raise UsageError("--symlinks keep is for copies; pack follows links or leaves them out (follow, skip).").about(
            "symlinks"
        )
    if split is not None and not _SMALLEST_SHARD <= split <= _LARGEST_SHARD:
        raise UsageError(f"--split {split} makes no sense; choose a size between 1MiB and 50TB for each shard.").about(
            "split", "options"
        )
    # Files of this machine are checked only for callers that may read them.
    looks = bool(given.get("allow_local"))
    if looks and paths.is_local(source) and os.path.isfile(source):
        raise UsageError(f"'{source}' is a file; pack takes a folder or a prefix, and cp copies a single file.").about(
            "source"
        )
    folder, key = _folder_and_key(target) if looks or not paths.is_local(target) else (target, "")
    if looks and paths.is_local(source) and paths.is_local(target):
        spec = _within_this_machine(source, folder, given)
    else:
        spec = draft_spec(source, folder, below=True, **given)
    options: dict[str, Any] = {} if split is None else {SPLIT: split}
    if no_index:
        options[NO_INDEX] = True
    draft = with_operation(spec, OPERATION_PACK)
    return validate_spec(replace(draft, target=replace(spec.target, key=key), options=options))


def _within_this_machine(source: str, folder: str, given: Mapping[str, Any]) -> TransferSpec:
    """The spec of a folder that becomes a file in another one: ``build_spec`` is for copies with a side in S3."""
    # A placeholder for the target: no bucket can have the name "-".
    spec = draft_spec(source, "s3://-/", below=True, **given)
    with errors_about("target"):
        to, _ = paths.parse_target(folder, None)
    assert isinstance(spec.source, LocalFolder)
    if os.path.join(to, "").startswith(os.path.join(spec.source.path, "")):
        raise UsageError(
            f"The archive would lie in what is packed, '{spec.source.path}'. Choose a place outside of it."
        ).about("target")
    return replace(spec, target=LocalFolder(to, page_cache=bool(given.get("page_cache"))))


def build_from_options(options: Mapping[str, Any], **given: Any) -> CheckedSpec:
    """The spec of ``pack`` as a client over HTTP asks for it. See ``build_pack_spec``."""
    split, no_index = options.get(SPLIT), options.get(NO_INDEX, False)
    if (unknown := set(options) - OPTIONS) or not isinstance(no_index, bool) or type(split) not in (int, NoneType):
        named = ", ".join(sorted(unknown)) or "of these types"
        raise UsageError(
            f"pack has no options {named}; it takes {SPLIT} (bytes) and {NO_INDEX} (true or false)."
        ).about("options")
    return build_pack_spec(**given, split=split, no_index=no_index)


def _folder_and_key(target: str) -> tuple[str, str]:
    """A place that ``build_spec`` takes for everything below a prefix, and the key of the archive there."""
    form = "write s3://bucket/name.tar, or a path that ends in the name of the file"
    if paths.is_local(target):
        name = os.path.basename(target)
        if name in ("", ".", "..") or os.path.isdir(target):
            raise UsageError(f"'{target}' is a folder and names no archive; {form}.").about("target")
        if os.path.lexists(target) and not os.path.isfile(target):
            raise UsageError(f"'{target}' is not a file that an archive could replace; {form}.").about("target")
        return os.path.dirname(target) or ".", name
    with errors_about("target"):
        bucket, key = parse_uri(target)
    if key == "" or key.endswith("/"):
        raise UsageError(f"'{target}' names no archive; {form}.").about("target")
    return f"s3://{bucket}/", key


def shard_key(spec: TransferSpec, number: int) -> str:
    """The key of shard ``number``, from 0 on: ``x.tar`` becomes ``x-00000.tar``; the archive's own without shards."""
    key = spec.target.key
    return f"{key.removesuffix('.tar')}-{number:05}.tar" if SPLIT in spec.options else key


def key_prefix(spec: TransferSpec) -> str:
    """Common prefix of all keys that are written: those of shards and of indexes."""
    return spec.target.key.removesuffix(".tar") if SPLIT in spec.options else spec.target.key
