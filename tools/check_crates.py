"""Checks the arrows between our Rust crates. What other crates may come with stands in ``deny.toml``.

Run by ``make lint``. Reads ``cargo metadata`` only; compiles nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

# The crate -> what must not be among the crates it is built from, however deep. Dev-dependencies do not count.
FORBIDDEN = {
    "seqferry-archive": {
        "pyo3",
        "tokio",
        "seqferry-store",
        "seqferry-client",
        "seqferry-transfer",
        "seqferry-py",
        "seqferry-testkit",
    },
    "seqferry-inventory": {"pyo3", "tokio", "seqferry-store", "seqferry-testkit"},
    "seqferry-patterns": {"pyo3", "tokio", "seqferry-store", "seqferry-testkit"},
    "seqferry-store": {
        "pyo3",
        "seqferry-archive",
        "seqferry-inventory",
        "seqferry-vfs",
        "seqferry-client",
        "seqferry-transfer",
        "seqferry-py",
        "seqferry-testkit",
    },
    "seqferry-client": {
        "pyo3",
        "seqferry-archive",
        "seqferry-inventory",
        "seqferry-vfs",
        "seqferry-transfer",
        "seqferry-py",
        "seqferry-testkit",
    },
    "seqferry-transfer": {"pyo3", "seqferry-vfs", "seqferry-mount", "seqferry-py", "seqferry-testkit"},
    "seqferry-rows": {"pyo3", "seqferry-vfs", "seqferry-mount", "seqferry-py", "seqferry-testkit"},
    "seqferry-py": {"seqferry-testkit", "seqferry-store-testing"},
    "seqferry-vfs": {
        "pyo3",
        "fuser",
        "seqferry-gateway",
        "seqferry-nfs",
        "seqferry-mount",
        "seqferry-transfer",
        "seqferry-py",
        "seqferry-testkit",
    },
    "seqferry-mount": {
        "pyo3",
        "seqferry-py",
        "seqferry-testkit",
    },
    # Files as interfaces serve them: below the protocols, and below what implements them.
    "seqferry-share": {
        "pyo3",
        "tokio",
        "fuser",
        "nfs3_types",
        "seqferry-store",
        "seqferry-vfs",
        "seqferry-testkit",
    },
    # A protocol without files.
    "seqferry-nfs": {
        "pyo3",
        "seqferry-archive",
        "seqferry-store",
        "seqferry-client",
        "seqferry-transfer",
        "seqferry-vfs",
        "seqferry-mount",
        "seqferry-py",
        "seqferry-testkit",
    },
    "seqferry-gateway": {"pyo3", "seqferry-mount", "seqferry-py", "seqferry-testkit"},
    "seqferry-store-testing": {
        "pyo3",
        "seqferry-client",
        "seqferry-transfer",
        "seqferry-vfs",
        "seqferry-py",
        "seqferry-testkit",
    },
    "seqferry-testkit": {"pyo3", "seqferry-store", "seqferry-client", "seqferry-transfer", "seqferry-py"},
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

    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(ours)} crates checked, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
