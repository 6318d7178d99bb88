"""Uploads of a share as a transfer: the spec of an epoch, and the id that it has each time it is put on record."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Final

from seqferry.model.locations import S3Location
from seqferry.model.models import OPERATION_GATEWAY, ResolvedSpec, TransferSpec
from seqferry.spec import identity

SHARE: Final = "share"
"""Option: the name of the share."""

JOURNAL: Final = "journal"
"""Option: the name of the journal of the share, which no other journal has."""

EPOCH: Final = "epoch"
"""Option: the number of the epoch in the journal."""

RENAMED_FROM: Final = "renamed_from"
"""Option: the path below the share that a renamed folder had, where the objects were copied by its rename."""

RENAMED_TO: Final = "renamed_to"
"""Option: the path that it has. Empty: it is no more."""

OPTIONS: Final = frozenset({SHARE, JOURNAL, EPOCH, RENAMED_FROM, RENAMED_TO})

_NAMESPACE: Final = uuid.UUID("5b0f8a52-7f0e-5d6c-9a53-6e1f3c0f2a41")


def upload_batch_spec(
    place: S3Location, prefix: str, *, share: str, journal: str, epoch: int, renamed: tuple[str, str] | None = None
) -> ResolvedSpec:
    """The spec of what a share has uploaded below a prefix of the bucket of ``place``.

    Args:
        renamed: paths of a folder, before and after, by whose rename the objects were copied.
    """
    below = replace(place, key=prefix)
    options: dict[str, str | int] = {SHARE: share, JOURNAL: journal, EPOCH: epoch}
    if renamed is not None:
        options[RENAMED_FROM], options[RENAMED_TO] = renamed
    return identity.resolve(TransferSpec(source=below, target=below, operation=OPERATION_GATEWAY, options=options))


def upload_batch_id(share: str, journal: str, epoch: int) -> str:
    """The id of the transfer of an epoch."""
    return str(uuid.uuid5(_NAMESPACE, f"{journal}\n{share}\n{epoch}"))
