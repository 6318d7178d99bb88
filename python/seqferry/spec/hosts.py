"""Hosts of local folders, where any of several machines may do the work (PostgreSQL).

A folder belongs to the host that a transfer was submitted on, or to all hosts that have mounted it
(``shared_folders``). It is recorded with the transfer, which only workers of that host take that serve the folder.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

from seqferry.model.locations import LocalFolder, Location
from seqferry.model.models import ResolvedSpec, TransferSpec
from seqferry.model.workers import FOLDERS, SHARED_FOLDERS, ProcessStatus
from seqferry.places import paths
from seqferry.settings.config import Settings
from seqferry.spec import stored

SHARED: Final = "*"
"""Host of a folder that many hosts have mounted at the same path."""

HostFolder = tuple[str, str]
"""A host, or ``SHARED``, and the folder that its workers have to serve."""


def add_hosts(spec: ResolvedSpec, settings: Settings) -> ResolvedSpec:
    """The spec with the host of this process at each local folder that has none yet.

    Raises:
        UsageError: a folder is one of this process alone, as for standard input.
    """
    if settings.uses_sqlite:
        return spec
    if spec.kind.runs_list:
        return _add_hosts_to_lines(spec, settings)
    return spec.derive(source=_add_host(spec.source, settings), target=_add_host(spec.target, settings))


def folders(spec: TransferSpec) -> list[HostFolder]:
    """Folders that a worker has to serve for a transfer."""
    found = [(one.host, one.root or one.path) for one in _local(spec) if one.host is not None]
    return sorted(set(found))


def folder_paths(spec: TransferSpec) -> set[str]:
    """Paths of a transfer's folders, and of the folders above them that a worker has to serve."""
    return {path for one in _local(spec) for path in (one.path, one.root) if path is not None}


def find_unserved_folder(spec: TransferSpec, settings: Settings, named: Collection[str]) -> str | None:
    """Text for the first folder of the transfer that this process does not serve: ``needs`` names their roots only."""
    if settings.uses_sqlite:
        return None
    for one in _local(spec):
        if one.host is None:
            return f"local files, of which no host is on record ({one.path})"
        if (found := find_unserved((one.host, one.path), settings, named)) is not None:
            return found
    return None


def is_elsewhere(place: Location, settings: Settings) -> bool:
    """True for a folder on the disks of another host."""
    return isinstance(place, LocalFolder) and place.host not in (None, SHARED, settings.host_name)


def find_unserved(folder: HostFolder, settings: Settings, named: Collection[str] = ()) -> str | None:
    """Text for a folder that this process does not serve; None: it serves the folder.

    Args:
        named: folders that the user of this process has named, which it may use as they may.
    """
    host, path = folder
    own = settings.shared_folders if host == SHARED else settings.folders if host == settings.host_name else ()
    if paths.is_below(path, own) or (path in named and host in (SHARED, settings.host_name)):
        return None
    return describe_folder(folder)


def describe_folder(folder: HostFolder) -> str:
    host, path = folder
    return f"the shared folder {path}" if host == SHARED else f"the folder {path} of the host {host}"


def is_served(folder: HostFolder, fleet: Iterable[ProcessStatus]) -> bool:
    """True when one of these workers serves the folder, by what it reports."""
    host, path = folder
    for one in fleet:
        facts = one.activity.facts
        own = facts.get(SHARED_FOLDERS) if host == SHARED else facts.get(FOLDERS) if one.process.host == host else None
        if any(f"{path.rstrip('/')}/".startswith(f"{str(root).rstrip('/')}/") for root in own or ()):
            return True
    return False


def _local(spec: TransferSpec) -> Iterator[LocalFolder]:
    for place in _places(spec):
        if isinstance(place, LocalFolder):
            yield place


def _places(spec: TransferSpec) -> Iterable[Location]:
    yield from (spec.source, spec.target)
    parts = spec.options.get(stored.PARTS)
    if parts is None:
        return
    for part in parts:
        # Most lists name no folder, and have many lines.
        if '"type": "folder"' in str(part["spec"]):
            one = stored.read(part["spec"])
            yield from (one.source, one.target)


def _add_hosts_to_lines(spec: ResolvedSpec, settings: Settings) -> ResolvedSpec:
    parts = [dict(one) for one in spec.options[stored.PARTS]]
    for part in parts:
        if '"type": "folder"' in part["spec"]:
            one = stored.read(part["spec"])
            one = one.derive(source=_add_host(one.source, settings), target=_add_host(one.target, settings))
            part["spec"] = stored.write(one)
    return spec.derive(options={**spec.options, stored.PARTS: parts})


def _add_host(place: Location, settings: Settings) -> Location:
    if not isinstance(place, LocalFolder) or place.host is not None:
        return place
    if (root := _root_of(place.path, settings.shared_folders)) is not None:
        return replace(place, host=SHARED, root=root)
    return replace(place, host=settings.host_name, root=_root_of(place.path, settings.folders))


def _root_of(path: str, roots: Iterable[str]) -> str | None:
    return next((os.path.realpath(root) for root in roots if paths.is_below(path, (root,))), None)
