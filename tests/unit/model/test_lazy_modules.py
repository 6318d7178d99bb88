"""The tables of modules that are imported late: each names the same modules for type checkers and at run time."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

_SOURCE = Path(__file__).resolve().parents[3] / "python"
TABLES = [
    ".".join(path.relative_to(_SOURCE).with_suffix("").parts) for path in sorted(_SOURCE.glob("seqferry/*/lazy.py"))
]


def _declared(table: str) -> dict[str, str]:
    """Modules by their names, as type checkers see them."""
    source = _SOURCE.joinpath(*table.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    branch = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    imports = [node for node in branch.body if isinstance(node, ast.ImportFrom)]
    return {str(one.asname): f"{node.module}.{one.name}" for node in imports for one in node.names}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_imports_the_modules_that_it_declares(table: str) -> None:
    declared = _declared(table)

    found = {name: getattr(import_module(table), name).__name__ for name in declared}

    assert declared
    assert found == declared


@pytest.mark.parametrize("table", TABLES)
def test_a_table_imports_nothing_before_it_is_asked(table: str) -> None:
    program = f"import sys, {table}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert not set(_declared(table).values()) & set(done.stdout.split())


def test_a_name_that_a_table_lacks_is_an_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'seqferry.service.lazy' has no attribute 'nothing'"):
        _ = import_module("seqferry.service.lazy").nothing
