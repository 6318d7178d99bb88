"""Problems of instruments and other clients with a writable share, found in its configuration.

The software of sequencers refuses a share for reasons that it hardly reports: a ``$`` in the name, little free space, a
top folder that it may not write to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from seqferry.model.formatting import size
from seqferry.settings.shares import Share

_LITTLE_SPACE: Final = 2 << 40
"""Bytes of free space: a run of a large sequencer writes more, and its software checks the space before it begins."""

_OTHERS_WRITE: Final = 0o022


class ShareProblem(NamedTuple):
    """A problem of a share, and the next step."""

    text: str
    advice: str


def find_problems(share: Share) -> Iterator[ShareProblem]:
    """Problems of a writable share."""
    if "$" in share.name:
        yield ShareProblem("Instruments refuse a share with $ in its name.", "Give it another name.")
    if share.free_space < _LITTLE_SPACE:
        yield ShareProblem(
            f"It shows {size(share.free_space)} of free space, which instruments check before they begin a run.",
            "Remove free_space: the free space of the cache's disk is shown then.",
        )
    if not share.directory_mode & _OTHERS_WRITE:
        if share.squash != "all":
            yield ShareProblem(
                f"Only user {share.uid} may create files in its top folder "
                f"(directory_mode {share.directory_mode:04o}).",
                'Name the user of the instrument with uid and gid, or write squash = "all".',
            )
        elif share.anon_uid != share.uid:
            yield ShareProblem(
                f"All clients are mapped to user {share.anon_uid}, and only user {share.uid} may create files in its "
                "top folder.",
                "Give uid and anon_uid the same number.",
            )
    if not share.clients:
        yield ShareProblem(
            "Only programs on this machine may mount it.",
            "Name the instruments with clients, and serve it with --host.",
        )
