"""Checks of ``seqferry doctor``: this machine, its database and the storage, each finding with its next step.

Changes nothing but its record of endpoints, and asks the storage for no more than a few requests for each place.
"""

from __future__ import annotations

import email.utils
import http.client
import os
import platform
import resource
import shutil
import sqlite3
import ssl
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

import sqlalchemy as sa

from seqferry.db import endpoint_facts
from seqferry.doctor import capabilities, shares
from seqferry.doctor.capabilities import Capability, ProbedBucket
from seqferry.doctor.findings import Finding, Level
from seqferry.engine.engine import Engine, ObjectInfo, version
from seqferry.model.errors import ConfigError, SeqferryError, StorageError
from seqferry.model.formatting import duration, size
from seqferry.model.locations import LocalFolder, Location, S3Location
from seqferry.model.workers import WORKING_KINDS
from seqferry.places import endpoints, paths
from seqferry.proof import anchors
from seqferry.service.service import Service
from seqferry.settings import memory_limits
from seqferry.settings.config import Settings, cores
from seqferry.spec import identity

_LITTLE_SPACE: Final = 1024**3
_SKEW_WARNING: Final = 60.0
_SKEW_REFUSED: Final = 900.0
"""S3 refuses requests whose time is 15 minutes off."""
_SLOW_DATABASE: Final = 0.25
_NETWORK_FILE_SYSTEMS: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "lustre", "ceph", "glusterfs"})
_TIMEOUT_SECONDS: Final = 10.0
_FILES_BESIDE: Final = 256
_MINUTE: Final = 60.0


def examine(settings: Settings, places: Sequence[tuple[str, Location]], *, refresh: bool = False) -> Iterator[Finding]:
    """Look at everything; ``places`` are named, as ``source``. ``refresh`` asks for capabilities that are kept too."""
    yield _versions()
    yield Finding("configuration", "ok", f"file: {settings.config_file or 'none'}; database: {settings.database_label}")
    yield _state_folder(settings)
    yield _disk(settings.state_dir)
    yield from _database(settings)
    yield _open_files(settings)
    yield _memory(settings)
    yield _identity()
    if settings.audit_anchor is not None:
        yield _anchors(settings)
    yield from _shares(settings)
    engine = Engine.of(settings) if places else None
    servers: dict[str, str] = {}
    targets = {_bucket_of(place) for name, place in places if isinstance(place, S3Location) and name == "target"}
    checked: set[tuple[str, str]] = set()
    for name, place in places:
        if isinstance(place, LocalFolder):
            yield _folder(name, place, is_target=name == "target")
            continue
        assert engine is not None
        url = _address(place)
        if url not in servers:
            finding, servers[url] = _clock(url, place)
            yield finding
        samples: list[ObjectInfo] = []
        is_there = yield from _bucket(engine, name, place, samples)
        bucket = _bucket_of(place)
        if is_there and bucket not in checked:
            checked.add(bucket)
            sample = samples[0] if samples else None
            probed = ProbedBucket(engine, None, place, servers[url], sample, bucket in targets, refresh)
            yield from _capabilities(settings, name, probed)


def _versions() -> Finding:
    text = (
        f"seqferry {version()}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
        f"DBOS {version_of('dbos')}, {platform.system()} {platform.release()} {platform.machine()}, {cores()} cores"
    )
    return Finding("versions", "ok", text)


def _state_folder(settings: Settings) -> Finding:
    try:
        settings.prepare_state_dir()
    except SeqferryError as why:
        return Finding("state folder", "problem", why.message, "Give a folder of your own with --state-dir.")
    kind = file_system(settings.state_dir)
    if settings.uses_sqlite and kind in _NETWORK_FILE_SYSTEMS:
        return Finding(
            "state folder", "problem", f"{settings.state_dir} is on {kind}, where SQLite loses its locks.",
            "Give a folder on a local disk with --state-dir, or use PostgreSQL (SEQFERRY_DATABASE_URL).",
        )  # fmt: skip
    return Finding("state folder", "ok", f"{settings.state_dir} ({kind or 'unknown file system'})")


def file_system(path: Path, mounts: str = "/proc/mounts") -> str | None:
    """The type of the file system of a folder; None if it is not known."""
    try:
        lines = Path(mounts).read_text(errors="replace").splitlines()
    except OSError:
        return None
    best, found = "", None
    whole = os.path.realpath(path)
    for line in lines:
        fields = line.split()
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        if (whole == point or whole.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, found = point, fields[2]
    return found


def _disk(folder: Path) -> Finding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as why:
        return Finding(
            "disk", "problem", f"Cannot tell the free space of {folder}: {why.strerror}.", "See that it is there."
        )
    if free < _LITTLE_SPACE:
        return Finding(
            "disk", "problem", f"Only {size(free)} are free for records in {folder}.",
            "Make room, or give another folder with --state-dir: a million objects take about 500 MB.",
        )  # fmt: skip
    return Finding("disk", "ok", f"{size(free)} free for records")


def _database(settings: Settings) -> Iterator[Finding]:
    begun = time.monotonic()
    try:
        with Service.open(settings) as service:
            unfinished = [one for one in service.transfers(1000) if not one.ended]
            took = time.monotonic() - begun
            with service.database.read() as connection:
                select = "select sqlite_version()" if settings.uses_sqlite else "show server_version"
                server = connection.execute(sa.text(select)).scalar()
            working = any(one.alive and one.process.kind in WORKING_KINDS for one in service.workers())
    except SeqferryError as why:
        yield Finding("database", "problem", why.message, "See that it runs and that SEQFERRY_DATABASE_URL is right.")
        return
    name = "SQLite" if settings.uses_sqlite else "PostgreSQL"
    text = f"{name} {server}, {len(unfinished)} unfinished transfers, opened and read in {1000 * took:.0f} ms"
    slow = took > _SLOW_DATABASE * 10
    advice = "Put it on a faster disk, or nearer to this machine." if slow else None
    yield Finding("database", "warning" if slow else "ok", text, advice)
    if unfinished and not working:
        yield Finding(
            "worker", "warning", f"{len(unfinished)} transfers are unfinished and no worker runs.",
            "Start `seqferry worker` or `seqferry serve`, or go on with one by `seqferry resume ID`.",
        )  # fmt: skip
    else:
        yield Finding("worker", "ok", "a worker runs" if working else "none runs, and nothing waits for one")


def _anchors(settings: Settings) -> Finding:
    place = anchors.anchor_location(settings)
    assert place is not None
    try:
        Engine.of(settings).check_bucket(identity.resolve_place(place))
        with Service.open(settings) as service:
            left = anchors.overdue_entries(service.database, settings)
    except SeqferryError as why:
        advice = "See [audit] anchor and its credentials; transfers go on, and anchors are written later."
        return Finding("anchors", "problem", f"Heads of the ledger cannot be anchored: {why.message}", advice)
    if left is None:
        return Finding("anchors", "ok", f"{place.uri} can be reached, and lacks nothing")
    since = datetime.fromtimestamp(left.since, UTC).isoformat(timespec="seconds")
    return Finding(
        "anchors", "warning", f"{place.uri} lacks {left.entries:,} entries of the ledger, the first of {since}.",
        "Run `seqferry audit anchor`, which says what is wrong, or start a worker.",
    )  # fmt: skip


def _open_files(settings: Settings) -> Finding:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard - _FILES_BESIDE < settings.max_requests:
        return Finding(
            "open files", "warning",
            f"At most {hard:,} files may be open: {max(hard - _FILES_BESIDE, 1):,} requests can be in flight, and not "
            f"{settings.max_requests:,}.",
            "Raise the hard limit (ulimit -Hn, LimitNOFILE= of systemd, nofile of Docker), or lower --max-requests.",
        )  # fmt: skip
    return Finding("open files", "ok", f"{'no limit' if hard == resource.RLIM_INFINITY else f'{hard:,} may be open'}")


def _memory(settings: Settings) -> Finding:
    room = memory_limits.find_available()
    if room is None:
        return Finding("memory", "ok", f"{size(settings.memory)} of buffers, unknown free")
    resident = memory_limits.resident()
    wanted = min(settings.max_requests, settings.memory // memory_limits.BUFFERS_PER_REQUEST)
    found = memory_limits.plan_memory(room, resident=resident, memory=settings.memory, requests=wanted)
    left = f"{size(room.free)} are left of {room.cause} ({size(room.limit)})"
    if found.memory < settings.memory or found.requests < wanted // 2:
        return Finding(
            "memory", "warning",
            f"{left}: buffers take at most {size(found.memory)} of {size(settings.memory)}, and {found.requests:,} "
            f"requests can be in flight, and not {wanted:,}.",
            "Give the process more, or go on: transfers end, and take longer.",
        )  # fmt: skip
    return Finding("memory", "ok", f"{size(settings.memory)} of buffers; {left}")


# --- places -----------------------------------------------------------------------------------------------------------


def _shares(settings: Settings) -> Iterator[Finding]:
    for share in settings.shares:
        topic = f"share {share.name}"
        troubles = [] if share.read_only else list(shares.find_problems(share))
        if not troubles:
            yield Finding(topic, "ok", f"{share.source}, {'read-only' if share.read_only else 'written'}")
        for one in troubles:
            yield Finding(topic, "warning", one.text, one.advice)


def _identity() -> Finding:
    place = identity.resolve_place(S3Location(""))
    assert isinstance(place, S3Location)
    assert place.access is not None
    who = place.access.identity
    of = "" if who.role is None else f" ({'account' if who.source == 'session' else 'role'} {who.role})"
    return Finding("credentials", "ok", f"by default {identity.describe_here(who)}{of}")


def _folder(name: str, place: LocalFolder, *, is_target: bool) -> Finding:
    try:
        if is_target:
            paths.check_target(place.path)
        else:
            paths.check_source(place.path)
    except SeqferryError as why:
        return Finding(name, "problem", why.message, "Correct the path, or its permissions.")
    free = paths.free_bytes(place.path) if is_target else None
    return Finding(name, "ok", f"{place.uri}{'' if free is None else f', {size(free)} free'}")


def _address(place: S3Location) -> str:
    found = endpoints.resolve(place)
    if found is not None and "://" in found:
        return found
    return f"https://s3.{place.region or 'us-east-1'}.amazonaws.com"


def _bucket_of(place: S3Location) -> tuple[str, str]:
    return endpoint_facts.endpoint_name(place), place.bucket


def _clock(url: str, place: S3Location) -> tuple[Finding, str]:
    """The storage's time beside ours, by an unsigned request; and its Server header."""
    try:
        before = time.time()
        date, server = _date_of(url, place)
        now = (before + time.time()) / 2
    except (OSError, http.client.HTTPException, ValueError) as why:
        return Finding(
            "endpoint", "problem", f"{url} cannot be reached: {why}.",
            "See that the address is right, and that this machine's network, proxy and certificates allow it.",
        ), ""  # fmt: skip
    answers = f"{url} answers ({server or 'unnamed server'})"
    if date is None:
        return Finding("endpoint", "ok", f"{answers}, without its time"), server
    skew = now - date
    text = f"{answers}; this machine's clock is {abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}"
    if abs(skew) < _SKEW_WARNING:
        return Finding("endpoint", "ok", text), server
    level: Level = "problem" if abs(skew) > _SKEW_REFUSED else "warning"
    advice = "Set this machine's clock (timedatectl set-ntp true): S3 refuses 15 minutes."
    return Finding("clock", level, text, advice), server


def _date_of(url: str, place: S3Location) -> tuple[float | None, str]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        bundle = None if place.access is None else place.access.ca_bundle
        context = ssl.create_default_context(cafile=bundle)
        connection = http.client.HTTPSConnection(host, parts.port, timeout=_TIMEOUT_SECONDS, context=context)
    else:
        connection = http.client.HTTPConnection(host, parts.port, timeout=_TIMEOUT_SECONDS)
    try:
        # Of the bucket: SeaweedFS names itself in no answer about the root.
        connection.request("HEAD", f"/{quote(place.bucket)}")
        answer = connection.getresponse()
        given, server = answer.getheader("date"), answer.getheader("server", "")
    finally:
        connection.close()
    return None if given is None else email.utils.parsedate_to_datetime(given).timestamp(), server


def _bucket(engine: Engine, name: str, place: S3Location, samples: list[ObjectInfo]) -> Generator[Finding, None, bool]:
    """Findings about the bucket; False when it cannot be used. ``samples`` gets an object that can be looked up."""
    place_now = identity.resolve_place(place)
    assert isinstance(place_now, S3Location)
    assert place_now.access is not None
    who = identity.describe_here(place_now.access.identity)
    try:
        engine.check_bucket(place_now)
    except StorageError as why:
        yield Finding(name, "problem", why.message, _advice(why))
        return False
    yield Finding(name, "ok", f"s3://{place.bucket} is there, with {who}")
    try:
        found, _ = engine.list_after(place_now, "", at_most=1)
    except StorageError as why:
        yield Finding(f"{name}: list", "warning", why.message, "Allow s3:ListBucket, or name each object.")
        return True
    if not found:
        yield Finding(f"{name}: list", "ok", f"nothing is at {place.uri} yet")
        return True
    try:
        engine.head(place_now, [found[0].key])
    except StorageError as why:
        yield Finding(f"{name}: read", "problem", why.message, "Allow s3:GetObject below this prefix.")
        return True
    samples += found
    yield Finding(f"{name}: read", "ok", "objects can be listed and looked up")
    return True


def _capabilities(settings: Settings, name: str, probed: ProbedBucket) -> Iterator[Finding]:
    try:
        service = Service.open(settings)
    except SeqferryError:  # a finding about the database reports it
        for one in capabilities.find_capabilities(probed):
            yield _finding(name, one)
        return
    with service:
        try:
            for one in capabilities.find_capabilities(replace(probed, database=service.database)):
                yield _finding(name, one)
            yield _finding(name, capabilities.copies(service, probed.place))
        except ConfigError as why:
            text = f"The results cannot be recorded: {why.message}"
            yield Finding(f"{name}: record", "warning", text, "See that the database takes changes.")


def _finding(name: str, one: Capability) -> Finding:
    text = one.text
    if one.kept and one.age is not None:
        ago = "less than a minute" if one.age < _MINUTE else duration(one.age)
        again = "" if one.topic == "learned" else "; --refresh checks again"
        text += f" ({'' if one.topic == 'learned' else 'checked '}{ago} ago{again})"
    level: Level = "ok" if one.advice is None else "warning"
    age = None if one.age is None else round(one.age, 3)
    return Finding(f"{name}: {one.topic}", level, text, one.advice, age)


def _advice(why: StorageError) -> str:
    return {
        "credentials": "Renew the credentials (with SSO: `aws sso login`), or name a profile with --profile.",
        "redirect": "Give the region of the bucket with --region.",
        "person": "See the name of the bucket, and that its policy allows these credentials.",
    }.get(why.error_class, "See that the endpoint is right and can be reached.")
