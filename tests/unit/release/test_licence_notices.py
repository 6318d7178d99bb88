"""Licence notices: what is in the page is named with its licence, as the crates of the native module are."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def notices(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(ROOT / "tools/release"))
    yield importlib.import_module("notices")
    sys.modules.pop("notices", None)


def install(web: Path, name: str, dependencies: list[str] | None = None) -> None:
    folder = web / "node_modules" / name
    folder.mkdir(parents=True)
    needs = dict.fromkeys(dependencies or [], "^1.0.0")
    facts = {"name": name, "version": "1.2.3", "license": "MIT", "dependencies": needs}
    (folder / "package.json").write_text(json.dumps(facts))
    (folder / "LICENSE").write_text(f"Copyright of {name}")


@pytest.fixture
def web(tmp_path: Path) -> Path:
    sources = tmp_path / "src"
    sources.mkdir()
    (sources / "main.ts").write_text("import plot from 'uplot'\nimport { own } from './own'\n")
    (sources / "App.svelte").write_text(
        '<script>\nimport "@scope/style/main.css"\nawait import("late/part")\n</script>\n'
    )
    (sources / "main.test.ts").write_text("import { test } from 'vitest'\n")
    for name in ("uplot", "@scope/style", "late", "clsx", "vitest"):
        install(tmp_path, name)
    install(tmp_path, "svelte", ["clsx"])
    return tmp_path


def test_packages_that_the_page_imports_are_named_with_what_they_need_and_their_licence(
    notices: Any, web: Path
) -> None:
    found = notices.page_packages(web)

    assert {one["name"] for one in found} == {"uplot", "@scope/style", "late", "svelte", "clsx"}
    text = notices.notices([], found)
    assert "from 0 crates of others, and its page from 5 npm packages" in text
    for one in found:
        assert f"{one['name']} 1.2.3 (MIT)\n\nCopyright of {one['name']}\n" in text


def test_a_package_that_is_not_installed_is_an_error_not_a_gap(notices: Any, web: Path) -> None:
    (web / "src/more.ts").write_text("import x from 'missing'\n")

    with pytest.raises(notices.NoticesError, match=r"node_modules/missing/package\.json is missing"):
        notices.page_packages(web)


def test_the_imports_of_our_page_are_found(notices: Any, tmp_path: Path) -> None:
    """Each package that web/package.json names and the sources import is wanted from an installation."""
    (tmp_path / "src").symlink_to(ROOT / "web/src")
    for name in ("svelte", "uplot", "openapi-fetch"):
        install(tmp_path, name)

    assert {one["name"] for one in notices.page_packages(tmp_path)} == {"svelte", "uplot", "openapi-fetch"}
