"""``tools/check_rust_modules.py``: circles among the modules of a crate are found, rooms and tests are not counted."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("check_rust_modules", ROOT / "tools/check_rust_modules.py")
assert spec
assert spec.loader
check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check)


def crate(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    "files",
    [
        {"a.rs": "use crate::b::B;", "b.rs": "use crate::a::A;"},
        {"a.rs": "use crate::{b::{B, C}, c};", "b.rs": "fn f() { crate::c::f() }", "c.rs": "use super::a::{self};"},
        {"a/x.rs": "use super::super::b::B;", "a.rs": "mod x;", "b/y.rs": "use crate::a::x::X;", "b.rs": "mod y;"},
        {"room.rs": "mod a; mod b;", "room/a.rs": "use super::b::B;", "room/b.rs": "use crate::room::a::A;"},
    ],
)
def test_a_circle_is_found_however_its_imports_are_written(tmp_path: Path, files: dict[str, str]) -> None:
    assert check.circle(crate(tmp_path, {"lib.rs": "mod a; mod b;", **files}))


@pytest.mark.parametrize(
    "files",
    [
        {"a.rs": "use crate::b::B;", "b.rs": "// use crate::a::A;\n"},
        {"a.rs": "use crate::b::B;", "b.rs": "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"},
        {"a.rs": "mod x; use x::X;", "a/x.rs": "use super::A;"},
        {"a.rs": "use crate::b::B;", "b.rs": "#[cfg(test)]\nmod tests;", "b/tests.rs": "use crate::a::A;"},
    ],
)
def test_rooms_with_their_own_parts_and_tests_are_no_circles(tmp_path: Path, files: dict[str, str]) -> None:
    assert check.circle(crate(tmp_path, {"lib.rs": "mod a; mod b;", **files})) is None
