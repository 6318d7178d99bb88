"""``tools/mutants.py``: plants faults behind a switch in a copy, and finds the tests that catch them."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
operators = importlib.import_module("mutant_operators")
mutants = importlib.import_module("mutants")

RUST = """//! A crate.
mod limits {
    /// Not this: `if a < b {`
    pub fn is_full(used: usize, most: usize) -> bool {
        if used < most && used != 7 {
            return false;
        }
        true
    }

    async fn close(&mut self, name: &str) -> Result<(), Error> {
        self.lines.clear();
        tracing::warn!("if {name} {");
        drop(guard);
        self.file.sync(name).await?;
        let done = self.name == "if a < b {";
        Ok(())
    }

    pub const fn half(size: u64) -> u64 {
        if size < 2 {
            return 0;
        }
        size / 2
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, to: &mut fmt::Formatter) -> Result<(), Error> {
        if self.most < 3 {
            to.write(self);
        }
    }
}

#[cfg(test)]
mod tests {
    fn holds() -> bool {
        if 1 < 2 {
            check(3);
        }
        true
    }
}
"""

PYTHON = '''"""Words.

if a < b:
"""

from __future__ import annotations

import logging

MOST = 3
"""Most words."""


def shown(words: list[str], most: int) -> str:
    """The first words."""
    if len(words) > most or (most == 5 and not words):
        logging.getLogger(__name__).warning("too many: %s", most + 1)
        words.pop()
    return " ".join(words)


class Shelf:
    def is_empty(self) -> bool:
        """True: it holds nothing."""
        return True

    def __repr__(self) -> str:
        return "a" if self.is_empty() else "b"


if __name__ == "__main__":
    print(shown(["a"], 1))
'''

CONFTEST = '_OURS = {\n    "SEQFERRY_COMMAND",\n}\n'


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return project(tmp_path / "copy")


def project(folder: Path) -> Path:
    files: Mapping[str, str] = {
        "crates/store/src/lib.rs": RUST,
        "crates/vfs/src/lib.rs": "//! Another crate.\nmod shelf;\n#[cfg(test)]\nmod shelf_model;\n",
        "crates/vfs/src/shelf.rs": RUST,
        "crates/vfs/src/shelf_model.rs": RUST,
        "python/seqferry/__init__.py": "",
        "python/seqferry/__main__.py": PYTHON,
        "python/seqferry/db/words.py": PYTHON,
        "python/seqferry/model/foreign_options.py": PYTHON,
        "tests/conftest.py": CONFTEST,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def texts(tree: Path) -> dict[str, str]:
    return {str(file.relative_to(tree)): file.read_text() for file in tree.rglob("*") if file.suffix in {".rs", ".py"}}


def edits(file: object) -> dict[str, list[str]]:
    """The texts that are planted, by operator."""
    found: dict[str, list[str]] = {}
    for one in file.mutants():  # type: ignore[attr-defined]
        found.setdefault(one.operator, []).append(one.text.replace(operators.NUMBER, "7"))
    return found


def shown(tree: Path, number: int | None) -> str:
    calls = "shown(['a', 'b', 'c'], 2), '|', shown(['a'], 1), '|', shown(['a'], 5)"
    code = f"from seqferry.db.words import shown; print({calls})"
    environment = {**os.environ, "PYTHONPATH": str(tree / "python"), "SEQFERRY_MUTANT": str(number)}
    if number is None:
        del environment["SEQFERRY_MUTANT"]
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    return result.stdout


def test_faults_of_rust_leave_out_tests_const_functions_texts_logs_and_shown_forms() -> None:
    assert edits(operators.RustFile("crates/store/src/lib.rs", RUST)) == {
        "negate": ["crate::mutants::is_on(7) != (used < most && used != 7)"],
        "off by one": ["(if crate::mutants::is_on(7) { used <= most } else { used < most })"],
        "skip": [
            "if !crate::mutants::is_on(7) { self.lines.clear(); }",
            "if !crate::mutants::is_on(7) { self.file.sync(name).await?; }",
        ],
        "early return": [
            "{ if crate::mutants::is_on(7) { return true; }",
            "{ if crate::mutants::is_on(7) { return false; }",
            "{ if crate::mutants::is_on(7) { return Ok(()); }",
        ],
    }


def test_faults_of_python_leave_out_docstrings_logs_and_shown_forms() -> None:
    first, second = "(len(words) > most)", "(most == 5 and not words)"
    assert edits(operators.PythonFile("python/seqferry/db/words.py", PYTHON)) == {
        "early return": [
            '    if _mutants.is_on(7):\n        return ""\n',
            "        if _mutants.is_on(7):\n            return True\n",
            "        if _mutants.is_on(7):\n            return False\n",
        ],
        "negate": [f"(_mutants.is_on(7) != bool(len(words) > most or {second}))"],
        "and/or": [
            f"({first} and {second} if _mutants.is_on(7) else {first} or {second})",
            "((most == 5) or (not words) if _mutants.is_on(7) else (most == 5) and (not words))",
        ],
        "off by one": ["((len(words)) >= (most) if _mutants.is_on(7) else (len(words)) > (most))"],
        "constant": ["(5 + _mutants.is_on(7))"],
        "skip": ["if not _mutants.is_on(7): words.pop()"],
    }


def test_half_of_the_mutants_are_where_data_are_lost_and_no_function_has_two(tree: Path) -> None:
    found = mutants.draw(tree, 5, 8, set())

    assert sorted(found) == list(range(1, 9))
    assert {number for number, one in found.items() if mutants.FIRST_HALF.match(one.file)} == {1, 3, 5, 7}
    assert len({(one.file, one.function) for one in found.values()}) == len(found)
    assert not [one for one in found.values() if "shelf_model" in one.file or "__main__" in one.file]


def test_a_seed_plants_the_same_again_and_one_left_out_is_replaced_in_its_half(tmp_path: Path) -> None:
    one, other = project(tmp_path / "one"), project(tmp_path / "other")

    mutants.plant(one, 5, 4, set())
    mutants.plant(other, 6, 4, set())
    mutants.plant(other, 5, 4, {3})
    without = mutants.planted_mutants(other)
    mutants.plant(other, 5, 4, set())

    assert texts(one) == texts(other)
    before = mutants.planted_mutants(one)
    assert list(without) == [1, 2, 4, 5]
    assert {number: without[number] for number in (1, 2, 4)} == {number: before[number] for number in (1, 2, 4)}


def test_a_copy_behaves_as_the_original_until_a_switch_is_on(tree: Path) -> None:
    before = shown(tree, None)
    mutants.plant(tree, 5, 8, set())
    mine = [number for number, one in mutants.planted_mutants(tree).items() if one.file.endswith("db/words.py")]

    assert before == "a b | a | a\n"
    assert shown(tree, None) == before
    assert shown(tree, 0) == before
    assert [number for number in mine if shown(tree, number) != before]
    assert '"SEQFERRY_MUTANT"' in (tree / "tests/conftest.py").read_text()
    assert (tree / "crates/store/src/lib.rs").read_text().count("fn is_on") == 1


def test_the_checkout_of_the_tool_itself_is_refused() -> None:
    with pytest.raises(SystemExit, match="planted in a copy"):
        mutants.plant(ROOT, 1, 1, set())


def test_a_hunt_names_the_test_that_catches_and_does_not_count_what_fails_anyway(tree: Path) -> None:
    (tree / ".venv/bin").mkdir(parents=True)
    python = tree / ".venv/bin/python"
    python.write_text(f'#!/bin/sh\nPYTEST_DISABLE_PLUGIN_AUTOLOAD=1 exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (tree / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {ROOT / 'tests'}\naddopts = -p xdist -p no:cacheprovider\n"
    )
    hook = "from support.failures import pytest_terminal_summary\n"
    (tree / "tests/conftest.py").write_text(hook + CONFTEST)
    mutants.plant(tree, 5, 2, set())
    test = "import os\n\ndef test_on() -> None:\n    assert os.environ['SEQFERRY_MUTANT'] != '1'\n"
    (tree / "tests/test_on.py").write_text(test)
    (tree / "tests/test_broken.py").write_text("def test_broken() -> None:\n    assert False\n")
    hunt = mutants.Hunt(tree, 0)
    on, broken = ("pytest", "tests/test_on.py"), ("pytest", "tests/test_broken.py")

    caught, survived, unknown = (hunt.hunt(*one, minutes=5) for one in ((1, [on]), (2, [on]), (2, [on, broken])))

    assert (caught["verdict"], caught["by"]) == ("caught", "tests/test_on.py::test_on")
    assert (survived["verdict"], survived["by"]) == ("survived", None)
    assert unknown["verdict"] == "undecided: without the mutant, too"
