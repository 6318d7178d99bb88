"""Lock of the packages that Seqferry needs to run: the part of ``requirements.lock`` that its dependencies reach.

    runtime_lock.py            writes requirements-runtime.lock
    runtime_lock.py --check    1 if the file is not what would be written
    runtime_lock.py --extra demo --output FILE    with the packages of an extra

Versions and hashes are those of ``requirements.lock``; the dependencies of each package are read from its metadata in
the environment that runs this. Markers are evaluated for each platform that wheels are made for.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[2]
FULL: Final = ROOT / "requirements.lock"
RUNTIME: Final = ROOT / "requirements-runtime.lock"

HEADER: Final = """\
# What Seqferry needs to run, of requirements.lock. Written by tools/release/runtime_lock.py.
# pip install --require-hashes --requirement requirements-runtime.lock
"""

PLATFORMS: Final = tuple(
    {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }
    for machine, python in product(("x86_64", "aarch64"), ("3.11", "3.12", "3.13"))
)


class LockError(Exception):
    """A lock that does not hold what the dependencies need."""


def blocks(lock: str) -> dict[str, str]:
    """Entries of a lock by the name of their package, each with its hashes and without its comments."""
    found: dict[str, str] = {}
    for entry in re.findall(r"(?m)^\S+==.*(?:\n[ \t]+.*)*", lock):
        lines = [line for line in entry.splitlines() if not line.lstrip().startswith("#")]
        lines[-1] = lines[-1].removesuffix("\\").rstrip()
        found[canonicalize_name(entry.partition("==")[0].partition("[")[0])] = "\n".join(lines)
    return found


def is_needed(requirement: Requirement, extras: frozenset[str]) -> bool:
    if requirement.marker is None:
        return True
    marker = requirement.marker
    return any(
        marker.evaluate({**platform, "extra": extra}) for platform in PLATFORMS for extra in (extras or frozenset({""}))
    )


def reached(first: list[Requirement]) -> set[str]:
    """Names of all packages that some requirements bring with them on any platform.

    Raises:
        LockError: the metadata of one of them is not there.
    """
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = [one for one in first if is_needed(one, frozenset())]
    while todo:
        requirement = todo.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            raise LockError(f"{name} is not installed here; run `make build` first.") from None
        todo += [one for one in map(Requirement, needs) if is_needed(one, extras)]
    return {name for name, _ in seen}


def runtime_lock(project: str, full: str, extras: list[str]) -> str:
    """Text of the lock for the dependencies of a ``pyproject.toml``, out of the text of the full lock.

    Raises:
        LockError: the full lock lacks a package.
    """
    described = tomllib.loads(project)["project"]
    wanted = [*described["dependencies"]]
    for extra in extras:
        if extra not in described["optional-dependencies"]:
            raise LockError(f"pyproject.toml has no extra {extra}.")
        wanted += described["optional-dependencies"][extra]
    entries = blocks(full)
    names = reached([*map(Requirement, wanted)])
    if lacking := sorted(names - entries.keys()):
        raise LockError(f"requirements.lock lacks {', '.join(lacking)}; write it again (CONTRIBUTING.md).")
    return HEADER + "".join(f"{entries[name]}\n" for name in sorted(names))


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the lock of what Seqferry needs to run.")
    parser.add_argument("--check", action="store_true", help="only compare; 1 if the file is out of date")
    parser.add_argument("--extra", action="append", default=[], help="with the packages of this extra")
    parser.add_argument("--output", type=Path, default=RUNTIME)
    given = parser.parse_args()
    try:
        text = runtime_lock((ROOT / "pyproject.toml").read_text(), FULL.read_text(), given.extra)
    except LockError as why:
        print(f"runtime_lock: {why}", file=sys.stderr)
        return 1
    if not given.check:
        given.output.write_text(text)
    elif not given.output.exists() or given.output.read_text() != text:
        print(f"{given.output.name} is out of date: run `make runtime-lock`.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
