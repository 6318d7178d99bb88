"""The folder of a report: JSON, plots and a page."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from seqferry.bench.plots import Plot
from seqferry.model.errors import ConfigError, UsageError

Draw = Callable[[dict[str, Any]], tuple[list[Plot], str | None]]
MakePage = Callable[[dict[str, Any], Sequence[Plot]], str]


@contextlib.contextmanager
def output_folder(folder: Path) -> Generator[None]:
    """Makes sure, before anything is measured, that the report can be written.

    A folder that was made and has nothing in it at the end is removed: nothing was measured.

    Raises:
        UsageError: the folder cannot be written.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        _make(folder)
        yield
    finally:
        for each in missing:
            with contextlib.suppress(OSError):
                each.rmdir()


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".seqferry-bench"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(f"--output {folder}: {error.strerror or error}.") from None


def publish(
    result: dict[str, Any], folder: Path, *, draw: Draw, page: MakePage, earlier: Sequence[str]
) -> tuple[list[Path], str | None]:
    """Writes the JSON file, the plots and the page; returns the files, and a line on what is missing if anything is.

    Args:
        earlier: beginnings of names of plots, which are removed: those of another run would pass for those of this one.

    Raises:
        ConfigError: a file cannot be written.
    """
    try:
        for old in folder.glob("*.png"):
            if old.name.startswith(tuple(earlier)):
                old.unlink()
        written = [folder / "report.json"]
        written[0].write_text(json.dumps(result, indent=1, allow_nan=False) + "\n")
        drawn, missing = draw(result)
        for each in drawn:
            path = folder / f"{each.name}.png"
            path.write_bytes(each.png)
            written.append(path)
        path = folder / "report.html"
        # Names of files need not be text of UTF-8.
        path.write_bytes(page(result, drawn).encode("utf-8", "backslashreplace"))
        return [*written, path], missing
    except OSError as error:
        raise ConfigError(f"{folder}: the report cannot be written: {error.strerror or error}.") from None
