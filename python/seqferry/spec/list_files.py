"""Lists of keys in files: read when a transfer is submitted, or, for a schedule, at each of its runs.

The spec of a schedule names its list (``TransferSpec.files_from``), and the spec of a run has the keys that the list
held then. What must stay true: a spec that names a list is never submitted; a list is read once for each run, and the
digest on record is that of the bytes whose keys were taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.model.models import ResolvedSpec, TransferSpec
from seqferry.places import paths
from seqferry.settings.config import Settings
from seqferry.spec import key_lists
from seqferry.spec.key_lists import NamedKey

Form = Literal["lines", "csv"]


@frozen
class ListRead:
    """A list that a run has read.

    Attributes:
        name: its path.
        sha256: of its bytes, in hexadecimal.
        objects: number of its rows.
    """

    name: str
    sha256: str
    objects: int

    def facts(self) -> dict[str, Any]:
        """As the record of a transfer has them."""
        return {"list": self.name, "sha256": self.sha256, "objects": self.objects}


def read_file(name: str) -> bytes:
    """The bytes of a list; at most one more than a list may have.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        with open(name, "rb") as file:  # noqa: PTH123
            return file.read(key_lists.MAX_BYTES + 1)
    except OSError as why:
        raise UsageError(
            f"Cannot read the list '{name}': {why.strerror or why}. Give a file, or - for standard input."
        ).about("keys") from None


def arguments(rows: Sequence[NamedKey]) -> dict[str, Any]:
    """The rows of a list as arguments of ``draft_spec``."""
    return {
        "keys": [row.key for row in rows],
        "versions": [row.version_id for row in rows],
        "targets": [row.target_key for row in rows],
    }


def defer(spec: ResolvedSpec, name: str, form: Form) -> ResolvedSpec:
    """The spec of a schedule whose runs read a list, from one that was checked with the keys of that list."""
    path = str(Path(name).absolute())
    return spec.derive(keys=None, versions=(), targets=(), files_from=path, files_format=form)


def check_shared(spec: TransferSpec, settings: Settings) -> None:
    """See that each worker that may start a run can read the list, and may: workers read only folders that they serve.

    Raises:
        UsageError: the list is not in a folder that all hosts share.
    """
    if spec.files_from is None or settings.uses_sqlite:
        return
    if not any(paths.is_below(spec.files_from, (root,)) for root in settings.shared_folders):
        raise UsageError(
            f"The list '{spec.files_from}' is not in a shared folder, and any worker at this database may start a run. "
            "Put it into a folder that all hosts have mounted, and name that folder in shared_folders of each."
        ).about("keys")


def read_listed(spec: TransferSpec, settings: Settings) -> tuple[TransferSpec, ListRead | None]:
    """The spec of a run that begins now, and the list that it has read; None: the schedule has no list.

    Raises:
        UsageError: the list is missing, malformed or empty, or this process may not read it.
    """
    name = spec.files_from
    if name is None:
        return spec, None
    check_shared(spec, settings)
    data = read_file(name)
    digest = hashlib.sha256(data).hexdigest()
    try:
        rows = key_lists.read(data, name, cast("Form", spec.files_format))
    except UsageError as why:
        raise UsageError(f"{why.message} SHA-256 of the list: {digest}.").about("keys") from None
    found = arguments(rows)
    listed = replace(
        spec,
        keys=tuple(found["keys"]),
        versions=tuple(found["versions"]) if any(found["versions"]) else (),
        targets=tuple(found["targets"]) if any(found["targets"]) else (),
        files_from=None,
        files_format="lines",
    )
    return listed, ListRead(name, digest, len(rows))
