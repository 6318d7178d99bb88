"""Folders below the state folder that are there for a moment. What a killed process leaves goes with the next one made.

In each is a lock file that its maker keeps locked. A folder whose lock is free was left by a killed process.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from seqferry.places import paths


@contextmanager
def scratch_folder(state_dir: Path, name: str) -> Generator[Path]:
    """A new folder, for its owner only, that is removed in the end. ``name`` tells what it is for.

    Raises:
        OSError: the folder cannot be made.
    """
    place = _place(state_dir)
    with ExitStack() as held:
        paths.make_folders(str(place), mode=0o700)
        with paths.hold_lock(place):  # so that the new folder is not taken for one that was left
            _sweep(place)
            folder = place / f"{name}-{uuid.uuid4().hex}"
            folder.mkdir(mode=0o700)
            (folder / paths.LOCK).touch()
            held.enter_context(paths.hold_lock(folder / paths.LOCK))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _place(state_dir: Path) -> Path:
    return state_dir / "scratch"


def _sweep(place: Path) -> None:
    for folder in place.iterdir():
        if not paths.is_held(folder):
            shutil.rmtree(folder, ignore_errors=True)
