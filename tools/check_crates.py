"""Checks what Rust crates depend on: the arrows between ours, and the licences of all the others.

Run by ``make lint``. Reads ``cargo metadata`` only; compiles nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

# The crate -> what must not be among the crates it is built from, however deep. Dev-dependencies do not count.
FORBIDDEN = {
    "seqferry-store": {"pyo3", "seqferry-transfer", "seqferry-py", "seqferry-testkit"},
    "seqferry-transfer": {"pyo3", "seqferry-py", "seqferry-testkit"},
    "seqferry-py": {"seqferry-testkit"},
    "seqferry-testkit": {"pyo3", "seqferry-store", "seqferry-transfer", "seqferry-py"},
}

# Permissive licences under which a binary may be passed on. A crate must offer a choice that lies within this set.
LICENCES = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "OpenSSL",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}


def metadata() -> dict[str, Any]:
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def dependencies(data: dict[str, Any]) -> dict[str, set[str]]:
    """Package id -> ids of its normal and build dependencies."""
    return {
        node["id"]: {
            dep["pkg"] for dep in node["deps"] if any(kind["kind"] in (None, "build") for kind in dep["dep_kinds"])
        }
        for node in data["resolve"]["nodes"]
    }


def reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        for dep in edges[todo.pop()] - seen:
            seen.add(dep)
            todo.append(dep)
    return seen


def allowed(expression: str) -> bool:
    """Whether an SPDX expression offers a choice within LICENCES. ``/`` is the old way to write OR."""
    tokens = expression.replace("/", " OR ").replace("(", " ( ").replace(")", " ) ").split()

    def parse_or() -> bool:
        value = parse_and()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            right = parse_and()
            value = value or right
        return value

    def parse_and() -> bool:
        value = parse_atom()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            right = parse_atom()
            value = value and right
        return value

    def parse_atom() -> bool:
        token = tokens.pop(0)
        if token == "(":
            value = parse_or()
            tokens.pop(0)
            return value
        if tokens and tokens[0] == "WITH":
            tokens.pop(0)
            token = f"{token} WITH {tokens.pop(0)}"
        return token in LICENCES

    return parse_or()


def main() -> int:
    data = metadata()
    packages = {package["id"]: package for package in data["packages"]}
    ours = {packages[member]["name"]: member for member in data["workspace_members"]}
    edges = dependencies(data)
    problems: list[str] = []

    for name, forbidden in FORBIDDEN.items():
        if name not in ours:
            problems.append(f"tools/check_crates.py names the crate {name}, which is not in the workspace")
            continue
        found = {packages[dep]["name"] for dep in reachable(ours[name], edges)} & forbidden
        problems += [f"{name} must not depend on {crate}" for crate in sorted(found)]
    problems += [f"{name} has no row in FORBIDDEN of tools/check_crates.py" for name in sorted(ours.keys() - FORBIDDEN)]

    shipped = set(ours.values()).union(*(reachable(member, edges) for member in ours.values()))
    for package in (packages[id_] for id_ in sorted(shipped)):
        licence = package["license"] or "no licence"
        if not allowed(licence):
            problems.append(f"{package['name']} {package['version']} comes under {licence}, which is not on the list")

    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(shipped)} crates looked at, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
