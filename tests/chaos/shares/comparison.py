"""A bucket beside the model of what clients were told, after a drain."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from chaos.shares.tree import File, difference
from chaos.shares.world import PREFIX, ShareWorld
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from support.buckets import CLAIM, PROBES, keys, open_uploads
from support.processes import run, seqferry

_AT_ONCE: Final = 8
_MOST: Final = 1_000_000
_CONFLICTS: Final = ".seqferry-conflicts/"
_TIME: Final = re.compile(r"(\d+)(?:\.(\d{1,9}))?")


@dataclass(frozen=True)
class Finding:
    """What is wrong, and the path that it concerns."""

    path: str
    text: str
    is_lost: bool = False
    """An acknowledged byte, name, mode or time is not there."""


@dataclass(frozen=True)
class Stored:
    """An object, read back."""

    body: bytes
    etag: str
    metadata: dict[str, str]


def compare(world: ShareWorld) -> tuple[int, list[Finding]]:
    """Number of files that were compared, and what differs."""
    listed = [key.removeprefix(PREFIX) for key in keys(world.server, world.bucket)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        names = [key for key in listed if not key.endswith("/")]
        stored = dict(zip(names, pool.map(functools.partial(_get, world), names), strict=True))
    files = {path: file for tree in world.trees for path, file in tree.files.items()}
    findings = [
        *_names(world, listed, files),
        *(one for path in files if path in stored for one in _differences(path, files[path], stored[path])),
        *(Finding(key, f"an upload is open: {upload}") for key, upload in open_uploads(world.server, world.bucket)),
        *_record(world, files, stored),
    ]
    return len(files), findings


def _get(world: ShareWorld, path: str) -> Stored:
    got = world.server.client().get_object(Bucket=world.bucket, Key=PREFIX + path)
    return Stored(got["Body"].read(), got["ETag"].strip('"'), got["Metadata"])


def _names(world: ShareWorld, listed: list[str], files: dict[str, File]) -> Iterator[Finding]:
    folders = {folder for tree in world.trees for folder in (*tree.folders, tree.top.rstrip("/"))}
    for path in listed:
        if any(tree.is_unsure(path.rstrip("/")) for tree in world.trees) or path in PROBES:
            continue
        if path == CLAIM:
            yield Finding(path, "the claim was not removed by the drain")
        elif path.startswith(_CONFLICTS):
            yield Finding(path, "a conflict, and no other program has written")
        elif path.endswith("/"):
            if path.rstrip("/") not in folders and not world.shows_empty_folders:
                yield Finding(path, "a folder that was removed or renamed is there")
        elif path not in files:
            yield Finding(path, "a file that was removed or renamed is there")
    for path in files.keys() - set(listed):
        yield Finding(path, f"a file of {len(files[path].body)} bytes is not there", is_lost=True)
    for folder in folders - {""}:
        if not any(one.startswith(f"{folder}/") for one in listed) and not _is_shown(world, folder):
            yield Finding(folder, "a folder is not there", is_lost=True)


def _is_shown(world: ShareWorld, folder: str) -> bool:
    """True for a folder without keys that the server shows all the same."""
    above = PREFIX + folder[: folder.rfind("/") + 1]
    listed = world.server.client().list_objects_v2(Bucket=world.bucket, Prefix=above, Delimiter="/")
    return any(one["Prefix"] == f"{PREFIX}{folder}/" for one in listed.get("CommonPrefixes", []))


def _differences(path: str, file: File, found: Stored) -> Iterator[Finding]:
    if found.body != file.body:
        yield Finding(path, difference(file.body, found.body), is_lost=True)
    mode = int(found.metadata.get("mode", "0"), 8) & 0o7777
    if file.mode is not None and mode != file.mode:
        yield Finding(path, f"its mode is {mode:o}, acknowledged was {file.mode:o}", is_lost=True)
    modified = _nanoseconds(found.metadata.get("mtime", ""))
    if file.modified is not None and (modified is None or not file.modified[0] <= modified <= file.modified[1]):
        first, last = (datetime.fromtimestamp(at / 1e9, UTC).isoformat(" ") for at in file.modified)
        told = first if first == last else f"from {first} to {last}"
        yield Finding(path, f"its time is {modified} ({found.metadata}), acknowledged was {told}", is_lost=True)


def _nanoseconds(text: str) -> int | None:
    matched = _TIME.fullmatch(text)
    return None if matched is None else int(matched[1]) * 10**9 + int((matched[2] or "").ljust(9, "0"))


def _record(world: ShareWorld, files: dict[str, File], stored: dict[str, Stored]) -> Iterator[Finding]:
    """The last row of each file names its object, and nothing on record was changed."""
    with Service.open(Settings.load(world.environment)) as service:
        rows = [row for one in service.transfers(1000) for row in service.objects(one.id, state="done", limit=_MOST)]
    last = {row.target_key: row for row in sorted(rows, key=lambda row: row.ended_at or "")}
    for path, file in files.items():
        if path not in stored or (file.modified is None and file.mode is None):
            continue  # not written, but perhaps renamed
        row = last.get(PREFIX + path)
        if row is None:
            yield Finding(path, "no upload of it is on record")
        elif row.target_etag != stored[path].etag:
            yield Finding(path, f"on record is the ETag {row.target_etag}, its object has {stored[path].etag}")
    verified = run([seqferry(), "audit", "verify"], environment=world.environment, expect=None)
    if verified.returncode != 0:
        yield Finding("", f"audit verify: {verified.stdout}{verified.stderr}")
