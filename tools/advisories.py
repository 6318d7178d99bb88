"""Looks the pinned packages up in databases of security advisories that are on this machine.

Run by ``make supply-chain``. Needs no network: two variables name clones of the databases.

    SEQFERRY_ADVISORY_DB       https://github.com/rustsec/advisory-db, for Cargo.lock
    SEQFERRY_PYPA_ADVISORY_DB  https://github.com/pypa/advisory-database, for requirements.lock

A variable that is not set is a check that was skipped: that is printed, and is a failure with ``--require``. A clone
whose last commit is older than 30 days is a failure: it says nothing of what was found since.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

OLDEST: Final = 30 * 86_400
"""Seconds. New advisories come every few days."""

ROOT: Final = Path(__file__).resolve().parents[1]
CARGO_AUDIT: Final = Path(sys.executable).parent / "cargo-audit"


def pins(lock: str) -> dict[str, str]:
    """Canonical name -> version of each package of a ``requirements.lock``."""
    found = re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock, re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def affects(advisory: dict[str, Any], name: str, version: str) -> bool:
    """Whether an OSV advisory is about this version of a package."""
    mine = Version(version)
    for affected in advisory.get("affected", ()):
        if canonicalize_name(affected.get("package", {}).get("name", "")) != name:
            continue
        if version in affected.get("versions", ()):
            return True
        for span in affected.get("ranges", ()):
            if span.get("type") == "ECOSYSTEM" and _within(mine, span.get("events", ())):
                return True
    return False


def _within(version: Version, events: Any) -> bool:
    within = False
    for event in events:  # in the order of versions
        ((kind, text),) = event.items()
        try:
            at = Version("0" if text == "0" else str(text))
        except InvalidVersion:
            continue
        if kind == "introduced" and version >= at:
            within = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            within = False
    return within


def of_python(database: Path, lock: str) -> list[str]:
    """What PyPA's database says of the packages of a ``requirements.lock``."""
    found: list[str] = []
    for name, version in sorted(pins(lock).items()):
        for path in sorted((database / "vulns" / name).glob("*.yaml")):
            advisory = yaml.safe_load(path.read_text(encoding="utf-8"))
            if not advisory.get("withdrawn") and affects(advisory, name, version):
                found.append(
                    f"{name} {version}: {advisory['id']}: {advisory.get('details', '').strip().partition(chr(10))[0]}"
                )
    return found


def of_rust(database: Path) -> list[str]:
    """What RustSec's database says of the crates of ``Cargo.lock``."""
    command = [CARGO_AUDIT, "audit", "--db", database, "--no-fetch", "--stale", "--file", ROOT / "Cargo.lock"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    return [] if ended.returncode == 0 else [(ended.stdout + ended.stderr).strip()]


def too_old(database: Path, now: float) -> str | None:
    """Why a clone says nothing of today, None when it does."""
    command = ["git", "-C", database, "log", "-1", "--format=%ct"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    if ended.returncode != 0 or not ended.stdout.strip().isdecimal():
        return f"{database} is no git clone, so its age is not known"
    days = (now - int(ended.stdout)) / 86_400
    return f"{database} is {days:.0f} days old: fetch it anew" if days * 86_400 > OLDEST else None


def main(arguments: list[str]) -> int:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    problems: list[str] = []
    for variable, what, files, look in (
        ("SEQFERRY_ADVISORY_DB", "crates", "crates/*/*.md", of_rust),
        ("SEQFERRY_PYPA_ADVISORY_DB", "Python packages", "vulns/*/*.yaml", lambda database: of_python(database, lock)),
    ):
        named = os.environ.get(variable, "")
        if not named:
            print(f"SKIPPED: advisories of {what} were not checked; {variable} names no clone of their database")
            if "--require" in arguments:
                problems.append(f"{variable} is not set")
            continue
        database = Path(named)
        unusable = too_old(database, time.time())
        if unusable is None and next(database.glob(files), None) is None:
            unusable = f"{database} holds no advisories of {what}"
        found = [unusable] if unusable is not None else look(database)
        problems += found
        print(f"advisories of {what}: {len(found)} problems")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
