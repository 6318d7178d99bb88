"""Checks of wheels and sdists: what they hold, and what auditwheel, abi3audit and twine say of them."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "python/seqferry"
LICENCES: Final = ("LICENSE", "LICENSE-THIRD-PARTY")
PAGE: Final = "seqferry/api/page/index.html"
DOCS: Final = "seqferry/api/docs/index.html"
MADE: Final = {".pyc", ".so", ".zip"}
"""Endings of files of the package that are made, and may be missing where it is used from its sources."""


class CheckError(Exception):
    """A wheel or sdist that lacks something, or holds what it must not."""


def package_files() -> set[str]:
    """Files of the package that belong into wheel and sdist, from the folder ``python``."""
    found = (file for file in PACKAGE.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {file.relative_to(PACKAGE.parent).as_posix() for file in found if file.suffix not in MADE}


def crates_sbom(wheel: Path) -> bytes:
    """Bill of materials of the crates, which maturin puts into the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        found = [name for name in archive.namelist() if "/sboms/" in name]
        if len(found) != 1:
            raise CheckError(f"{wheel.name} holds {len(found)} bills of materials of its crates, not one.")
        return archive.read(found[0])


def sections(library: bytes) -> set[str]:
    """Names of the sections of a 64-bit little-endian ELF file."""
    (offset,) = struct.unpack_from("<Q", library, 0x28)
    size, count, names = struct.unpack_from("<HHH", library, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", library, offset + number * size) for number in range(count)]
    start = headers[names][4]
    return {library[start + one[0] : library.index(b"\0", start + one[0])].decode() for one in headers}


def check_wheel(wheel: Path, *, page: bool = True) -> None:
    """Hold a wheel against the sources.

    Args:
        page: it has to hold the page, which is built by tools that a machine may lack.

    Raises:
        CheckError: a file is missing, the library is not stripped, or it names paths of this machine.
    """
    crates_sbom(wheel)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        if page and PAGE not in names:
            raise CheckError(f"{wheel.name} is without the page: see what `make try-page` says.")
        if DOCS not in names:
            raise CheckError(f"{wheel.name} is without the documentation: run `make docs`.")
        if missing := sorted(package_files() - names):
            raise CheckError(f"{wheel.name} lacks {', '.join(missing[:5])} ({len(missing)} in all).")
        licences = {name.rpartition("/")[2] for name in names if ".dist-info/licenses/" in name}
        if missing := sorted(set(LICENCES) - licences):
            raise CheckError(f"{wheel.name} lacks {', '.join(missing)}.")
        library = archive.read("seqferry/_native.abi3.so")
        # With the next folder: a clone may be in /src, which is a part of many other paths.
        if naming := [name for name in sorted(names) if bytes(ROOT / "crates") in archive.read(name)]:
            raise CheckError(f"{wheel.name}: {naming[0]} names the folder of the build, {ROOT}.")
    if unstripped := sections(library) & {".symtab", ".debug_info"}:
        raise CheckError(f"{wheel.name}: the library is not stripped ({', '.join(sorted(unstripped))}).")
    if "manylinux2014" in wheel.name and (found := re.search(rb"/[\w/.-]*/registry/src/[\w/.-]*", library)):
        raise CheckError(f"{wheel.name}: the library names a path of this machine: {found[0].decode()[:100]}")


def check_sdist(sdist: Path) -> None:
    """Hold an sdist against the sources.

    Raises:
        CheckError: a file is missing.
    """
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {f"python/{name}" for name in package_files()} | {"Cargo.lock", "pyproject.toml", "README.md", *LICENCES}
    if missing := sorted(wanted - names):
        raise CheckError(f"{sdist.name} lacks {', '.join(missing[:5])} ({len(missing)} in all).")


def run_tools(artefacts: Sequence[Path], say: Callable[[str], None]) -> None:
    """Run auditwheel, abi3audit and twine.

    Raises:
        CheckError: one of them objects.
    """
    wheels = [one for one in artefacts if one.suffix == ".whl"]
    for wheel in wheels:
        if "musllinux" not in wheel.name:  # auditwheel fails on them on a host with glibc
            shown = tool("auditwheel", "show", wheel)
            if "manylinux" in wheel.name and not re.search(r'"manylinux_2_17_\w+"', shown):
                raise CheckError(f"auditwheel: {wheel.name} is not consistent with manylinux2014:\n{shown}")
        tool("abi3audit", "--strict", wheel)
    tool("twine", "check", "--strict", *artefacts)
    say("auditwheel, abi3audit and twine have nothing to object to")


def tool(name: str, *arguments: str | Path) -> str:
    command = [Path(sys.executable).with_name(name), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise CheckError(f"{name}: {(ran.stdout + ran.stderr).strip()}")
    return ran.stdout
