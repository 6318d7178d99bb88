"""Modules that are imported when they are used first: the table of a package, its module ``lazy``.

Such a table lists each module twice: below ``TYPE_CHECKING`` for type checkers and import-linter, and as the arguments
of ``lazy_modules``. A test compares both.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType


def lazy_modules(table: str, **modules: str) -> Callable[[str], ModuleType]:
    """The ``__getattr__`` of the module ``table``: imports the module of a name."""

    def __getattr__(name: str) -> ModuleType:  # noqa: N807 - as Python calls it
        if name not in modules:
            raise AttributeError(f"module '{table}' has no attribute '{name}'")
        return import_module(modules[name])

    return __getattr__
