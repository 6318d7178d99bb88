"""Troubles of instruments and other clients at a share that can be written, as its configuration tells them.

The software of sequencers refuses a share for reasons that it hardly tells: a ``$`` in the name, little free space, a
top folder that it may not write to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from seqferry.model.formatting import size
from seqferry.settings.shares import Share

_LITTLE_SPACE: Final = 2 << 40
"""Bytes of free space: a run of a large sequencer writes more, and its software looks before it begins."""

_OTHERS_WRITE: Final = 0o022


class Trouble(NamedTuple):
    """Trouble at a share, and what to do about it."""

    text: str
    advice: str


def find_troubles(share: Share) -> Iterator[Trouble]:
    """Troubles of a share that can be written."""
    if "$" in share.name:
        yield Trouble("Instruments refuse a share with $ in its name.", "Give it another name.")
    if share.free_space < _LITTLE_SPACE:
        yield Trouble(
            f"It shows {size(share.free_space)} of free space, and instruments look at it before they begin a run.",
            "Remove free_space: the room of the cache's disk is shown then.",
        )
    if not share.directory_mode & _OTHERS_WRITE:
        if share.squash != "all":
            yield Trouble(
                f"Only user {share.uid} may make files at its top (directory_mode {share.directory_mode:04o}).",
                'Name the user of the instrument with uid and gid, or write squash = "all".',
            )
        elif share.anon_uid != share.uid:
            yield Trouble(
                f"All clients count as user {share.anon_uid}, and only user {share.uid} may make files at its top.",
                "Give uid and anon_uid the same number.",
            )
    if not share.clients:
        yield Trouble(
            "Only programs on this machine may mount it.",
            "Name the instruments with clients, and serve it with --host.",
        )
