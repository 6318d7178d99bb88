"""Doors need the service alone: its connections and its queue stay within."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import seqferry

_WITHIN = {"database", "queue", "locked", "park", "requeue"}
_PACKAGE = Path(seqferry.__file__).parent


@pytest.mark.parametrize("door", ["cli", "api", "nextflow", "demo", "bench"])
def test_no_door_uses_what_is_within_the_service(door: str) -> None:
    files = sorted((_PACKAGE / door).rglob("*.py"))
    found = [
        f"{file.name}:{node.lineno} {ast.unparse(node)}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in _WITHIN
        and ast.unparse(node.value).rpartition(".")[2].removeprefix("_") == "service"
    ]

    assert files
    assert found == []
