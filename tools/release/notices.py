"""Licence notices of the crates in the native module and of the npm packages in the page: each text once, with the
crates and packages that it belongs to.

    notices.py    writes LICENSE-THIRD-PARTY, which wheel and sdist take along by ``license-files``

Reads ``cargo metadata`` and the sources in cargo's cache, and ``web/node_modules``; needs no network once
``cargo fetch`` and ``npm ci`` have run.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
NOTICES: Final = ROOT / "LICENSE-THIRD-PARTY"
OUR_CRATE: Final = "seqferry-py"
PLATFORMS: Final = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-unknown-linux-musl")
TEXTS: Final = re.compile(r"(?i)(un)?licen[cs]e.*|copying.*|copyright.*|notice.*")
PROGRAMS: Final = {".rs", ".html", ".py", ".toml"}
"""Endings of files that are no licence, as ``copying.rs``."""


WEB: Final = ROOT / "web"
PAGE_SOURCES: Final = {".ts", ".svelte"}
IMPORTED: Final = re.compile(r"""(?:from|import)\s*\(?\s*["'](@[\w.-]+/[\w.-]+|[a-z][\w.-]*)(?=["'/])""")
"""Package of an import in the sources of the page; those of files begin with a dot."""

COMPILED_WITH: Final = "svelte"
"""Its run-time part is in the page, whatever the sources import."""


class NoticesError(Exception):
    """A crate or package that cannot be accounted for."""


def metadata(*arguments: str) -> dict[str, Any]:
    command = ["cargo", "metadata", "--format-version=1", "--locked", *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise NoticesError(ran.stderr.strip())
    return json.loads(ran.stdout)


def linked(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Crates of others that the native module is made of, by id. Those that only build or test it are left out."""
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    packages = {package["id"]: package for package in found["packages"]}
    todo = [one for one in packages if packages[one]["name"] == OUR_CRATE]
    seen = set(todo)
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_linked and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    return {one: packages[one] for one in seen if packages[one]["source"] is not None}


def page_packages(web: Path = WEB) -> list[dict[str, Any]]:
    """npm packages that the page imports, with all that those depend on, in the shape of crates.

    Some of them only compile the page: more notices than needed do no harm. Empty where the packages are not installed.

    Raises:
        NoticesError: a package that the page needs is not among the installed ones.
    """
    modules = web / "node_modules"
    if not (modules / COMPILED_WITH).is_dir():
        return []
    sources = [file for file in (web / "src").rglob("*") if file.suffix in PAGE_SOURCES and ".test." not in file.name]
    todo = {COMPILED_WITH, *(name for file in sources for name in IMPORTED.findall(file.read_text()))}
    found: dict[str, dict[str, Any]] = {}
    while todo:
        name = todo.pop()
        manifest = modules / name / "package.json"
        if not manifest.is_file():
            raise NoticesError(f"{manifest} is missing: the page needs it. Install the packages of the page: npm ci")
        package = json.loads(manifest.read_text())
        found[name] = {
            "name": name,
            "version": package["version"],
            "license": package.get("license"),
            "links": None,
            "manifest_path": str(manifest),
        }
        todo |= package.get("dependencies", {}).keys() - found.keys()
    return [*found.values()]


def texts_of(package: dict[str, Any]) -> list[str]:
    """Licences and notices in the source of a crate; of native code that it brings along also those deeper down."""
    folder = Path(package["manifest_path"]).parent
    found = folder.rglob("*") if package["links"] else folder.iterdir()
    named = [file for file in found if TEXTS.fullmatch(file.name) and file.suffix not in PROGRAMS]
    files = [inner for one in named for inner in (sorted(one.rglob("*")) if one.is_dir() else [one])]
    return [file.read_text(errors="replace").strip() for file in sorted(files) if file.is_file()]


def notices(crates: list[dict[str, Any]], packages: list[dict[str, Any]]) -> str:
    """Text of the notices of crates and of npm packages.

    Raises:
        NoticesError: one of them names no licence.
    """
    by_text: dict[str, list[str]] = defaultdict(list)
    without: list[str] = []
    for package in sorted([*crates, *packages], key=lambda one: (one["name"], one["version"])):
        expression = package["license"]
        name = f"{package['name']} {package['version']}"
        texts = [text for text in texts_of(package) if text]
        if not expression and not texts:
            raise NoticesError(f"{name} has neither a licence nor the text of one.")
        title = f"{name} ({expression or 'see below'})"
        for text in dict.fromkeys(texts):
            by_text[text].append(title)
        if not texts:
            without.append(title)
    opening = (
        f"The native module of Seqferry is compiled from {len(crates)} crates of others, and its page from "
        f"{len(packages)} npm packages, under these licences."
    )
    parts = [
        opening,
        *("\n".join(("-" * 80, *names, "", text)) for text, names in by_text.items()),
    ]
    if without:
        parts.append("\n".join(("-" * 80, "Crates and packages that ship no text of their licence:", "", *without)))
    return "\n\n".join(parts) + "\n"


def write(path: Path = NOTICES) -> tuple[int, int]:
    """Write the notices; returns the numbers of crates and of npm packages."""
    crates: dict[str, dict[str, Any]] = {}
    for platform in PLATFORMS:
        crates |= linked(metadata(f"--filter-platform={platform}"))
    packages = page_packages()
    path.write_text(notices([*crates.values()], packages))
    return len(crates), len(packages)


def main() -> int:
    try:
        crates, packages = write()
    except NoticesError as why:
        print(f"notices: {why}", file=sys.stderr)
        return 1
    print(f"{NOTICES.name}: notices of {crates} crates and {packages} npm packages, {NOTICES.stat().st_size >> 10} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
