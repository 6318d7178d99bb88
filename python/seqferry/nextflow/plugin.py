"""The plugin nf-seqferry, as the wheel brings it along: unpacked to where Nextflow looks for plugins."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from seqferry.model.errors import ConfigError, UsageError

NAME: Final = "nf-seqferry"
_ARCHIVE: Final = Path(__file__).with_name(f"{NAME}.zip")
"""Written by ``tools/build_nextflow_plugin.py``, and put into wheels."""


def default_folder(environment: Mapping[str, str]) -> Path:
    """The folder of plugins that Nextflow uses, by its own variables."""
    if environment.get("NXF_PLUGINS_DIR"):
        return Path(environment["NXF_PLUGINS_DIR"])
    home = environment.get("NXF_HOME")
    return (Path(home) if home else Path.home() / ".nextflow") / "plugins"


def install(folder: Path, version: str, archive: Path = _ARCHIVE) -> Path:
    """Unpacks the plugin into ``folder/nf-seqferry-VERSION``, in place of what is there; returns that folder.

    It appears there as a whole, or not at all.

    Raises:
        ConfigError: this build has no plugin, or its archive is damaged.
        UsageError: the folder cannot be written.
    """
    if not archive.is_file():
        raise ConfigError(
            f"This build of Seqferry has no {NAME} in it. Install a wheel of a release, or build it with "
            "`make nextflow-plugin` (Java 17 and Maven)."
        )
    target = folder / f"{NAME}-{version}"
    made: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{NAME}-", dir=folder))
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(made)
        _let_all_read(made)
        _replace(made, target)
    except zipfile.BadZipFile:
        raise ConfigError(f"{archive} is damaged. Install Seqferry again.") from None
    except OSError as error:
        raise UsageError(f"{folder}: the plugin cannot be written: {error.strerror or error}.") from None
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
    return target


def _let_all_read(folder: Path) -> None:
    """Other users of the machine may run Nextflow with it, whatever the umask of its installer."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _replace(made: Path, target: Path) -> None:
    if target.is_symlink() or target.is_file():
        raise NotADirectoryError(None, f"{target} is no folder; remove it")
    old = made.with_name(f"{made.name}.old")
    if target.exists():
        os.rename(target, old)  # noqa: PTH104 - a folder in one step
    try:
        os.rename(made, target)  # noqa: PTH104
    except OSError:
        if old.exists():
            os.rename(old, target)  # noqa: PTH104
        raise
    shutil.rmtree(old, ignore_errors=True)
