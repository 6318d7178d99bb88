"""Checks that the modules of a Rust crate stand in an order: no circle among modules that have the same parent.

Run by ``make lint``. Reads the sources only. A module and its own submodules may use each other: they are one room.
Modules that exist for tests alone do not count.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

Module = tuple[str, ...]

CRATES = Path(__file__).parent.parent / "crates"
COMMENT = re.compile(r"//[^\n]*")
TEST_MODULE = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;")
TESTS_AT_END = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{.*\Z", re.DOTALL)
USE = re.compile(r"\buse\s+((?:crate|super|self)\b[^;]*);")
ANY_USE = re.compile(r"\buse\s+[^;]*;")
PATH = re.compile(r"\b(?:crate|super)(?:::\w+)+")
TREE = re.compile(r"^(.*?)\{(.*)\}$", re.DOTALL)


def modules(sources: Path) -> dict[Module, Path]:
    """Each module of a crate that is not for tests alone, by its path, with its file."""
    found: dict[Module, Path] = {}
    for file in sources.rglob("*.rs"):
        parts = file.relative_to(sources).with_suffix("").parts
        found[parts[:-1] if parts[-1] in {"lib", "main", "mod"} else parts] = file
    tests = {(*module, name) for module, file in found.items() for name in TEST_MODULE.findall(file.read_text())}
    return {module: file for module, file in found.items() if not any(module[: len(t)] == t for t in tests)}


def expanded(tree: str) -> Iterator[str]:
    """The paths of one ``use``, without the braces."""
    match = TREE.match(tree.strip())
    if not match:
        yield re.sub(r"\s+as\s+\w+|\s", "", tree)
        return
    prefix, body = match.groups()
    depth, start = 0, 0
    for at, char in enumerate(body + ","):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            if body[start:at].strip():
                yield from expanded(prefix + body[start:at])
            start = at + 1


def paths(text: str) -> Iterator[str]:
    """All paths within the crate that a file names."""
    text = TESTS_AT_END.sub("", COMMENT.sub("", text))
    for tree in USE.findall(text):
        yield from expanded(tree)
    yield from PATH.findall(ANY_USE.sub("", text))


def resolved(path: str, module: Module, known: dict[Module, Path]) -> Module:
    """The module that a path, written in another one, leads to."""
    base, rest = module, path.split("::")
    if rest[0] == "crate":
        base, rest = (), rest[1:]
    while rest and rest[0] in {"super", "self"}:
        base, rest = (base[:-1] if rest[0] == "super" else base), rest[1:]
    target = (*base, *rest)
    while target not in known and target:
        target = target[:-1]
    return target


def siblings(module: Module, used: Module) -> tuple[Module, Module] | None:
    """The modules with one parent in which these two lie; None where one is in the other."""
    for at, (one, other) in enumerate(zip(module, used, strict=False), 1):
        if one != other:
            return module[:at], used[:at]
    return None


def circle(sources: Path) -> list[Module] | None:
    """The first circle among the modules of a crate."""
    known = modules(sources)
    graph: dict[Module, set[Module]] = {}
    for module, file in known.items():
        for path in paths(file.read_text()):
            if pair := siblings(module, resolved(path, module, known)):
                graph.setdefault(pair[0], set()).add(pair[1])
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def main() -> int:
    crates = sorted(crate for crate in CRATES.iterdir() if (crate / "src").is_dir())
    problems = 0
    for crate in crates:
        if found := circle(crate / "src"):
            problems += 1
            names = " <- ".join("::".join(module) for module in found)
            print(f"{crate.name}: modules use each other in a circle: {names}", file=sys.stderr)
    print(f"modules of {len(crates)} crates checked, {problems} circles")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
