"""``tools/changed.py``, which ``make check`` runs: what a change concerns, and what is left to ``make test``."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import changed
import pytest

ROOT = Path(__file__).parents[2]

PRODUCT = {
    "python/seqferry/__init__.py": "",
    "python/seqferry/cost/__init__.py": "",
    "python/seqferry/cost/lines.py": "",
    "python/seqferry/cost/stage.py": "from seqferry.cost import lines",
    "python/seqferry/cost/prices.json": "",
    "python/seqferry/db/tables.py": "def f():\n    import seqferry.cost.stage",
    "python/seqferry/db/migrations/m1.py": "",
    "python/seqferry/cli/app.py": "f = import_module(f'seqferry.cli.commands.{name}')",
    "python/seqferry/cli/commands/cp.py": "",
    "tests/support/servers.py": "",
    "tests/integration/conftest.py": "",
    "tests/integration/control.py": "from seqferry.db.tables import table\nfrom support import servers",
    "tests/unit/cost/test_lines.py": "from seqferry.cost.lines import line",
    "tests/unit/cost/test_stage.py": "from seqferry.cost import stage\nX = ROOT / 'a'",
    "tests/unit/db/test_rows.py": "import seqferry.db.tables",
    "tests/unit/cli/test_app.py": "from seqferry.cli.app import main",
    "tests/unit/test_words.py": 'X = ROOT / "docs" / "use/words.md", "prices.json", "tools/words.py"',
    "tests/unit/test_pages.py": 'ROOT.rglob("*.md")',
    "tests/integration/db/test_control.py": "from control import start",
    "tests/e2e/test_process.py": "from support.servers import start",
}


def tree(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def names(tests: tuple[str, ...]) -> str:
    return " ".join(Path(test).stem.removeprefix("test_") for test in tests)


@pytest.mark.parametrize(
    ("change", "run", "left"),
    [
        pytest.param("python/seqferry/cost/lines.py", "lines stage rows", "control", id="nearest first"),
        pytest.param("python/seqferry/db/tables.py", "rows control", "", id="an import in a function, a helper"),
        pytest.param("python/seqferry/cli/commands/cp.py", "app", "", id="a package that is imported by its name"),
        pytest.param("python/seqferry/db/migrations/m1.py", "rows control", "", id="no importer: its package"),
        pytest.param("python/seqferry/cost/gone.py", "lines stage", "", id="deleted"),
        pytest.param("tests/support/servers.py", "control process", "", id="support"),
        pytest.param("tests/integration/conftest.py", "control", "", id="fixtures"),
        pytest.param("tests/e2e/test_process.py", "process", "", id="a test itself"),
        pytest.param("docs/use/words.md", "words pages", "", id="a page, by path and by ending"),
        pytest.param("python/seqferry/cost/prices.json", "lines stage words", "", id="data, by name, and its package"),
        pytest.param("tools/words.py", "words", "", id="a program, by path"),
        pytest.param("web/src/app.css", "", "", id="nothing names it"),
    ],
)
def test_tests_that_lead_to_a_change_are_chosen_nearest_first(tmp_path: Path, change: str, run: str, left: str) -> None:
    chosen = changed.choose_tests(changed.Sources(tree(tmp_path, PRODUCT), [change]))

    assert (names(chosen.run), names(chosen.left)) == (run, left)


def test_what_exceeds_the_budget_is_left_but_the_first(tmp_path: Path) -> None:
    many = "from seqferry.cost import lines\n" + "def test_a(): ...\n" * 100
    files = {**PRODUCT, "tests/unit/cost/test_lines.py": many, "tests/unit/cost/test_many.py": many}
    sources = changed.Sources(tree(tmp_path, files), ["python/seqferry/cost/lines.py"])

    assert names(changed.choose_tests(sources, budget=1).run) == "lines"
    left = changed.choose_tests(sources, budget=sources.seconds("tests/unit/cost/test_lines.py") + 1)
    assert (names(left.run), names(left.left)) == ("lines stage rows", "many control")


@pytest.mark.parametrize(
    ("changes", "typed"),
    [
        (["python/seqferry/cost/stage.py"], ["python/seqferry/cost/stage.py", "python/seqferry/db/tables.py"]),
        (["tests/support/servers.py", "docs/a.md"], []),
        (["pyproject.toml"], None),
        (["python/seqferry/_native.pyi"], None),
    ],
)
def test_types_are_checked_of_changed_modules_and_their_importers(
    tmp_path: Path, changes: list[str], typed: list[str] | None
) -> None:
    assert changed.typed_files(changed.Sources(tree(tmp_path, PRODUCT), changes)) == typed


@pytest.mark.parametrize(
    ("changes", "tests", "whole", "native"),
    [
        (["crates/store/src/lib.rs"], {"store": ("--tests",)}, False, True),
        (["crates/store/tests/wire.rs"], {"store": ("--test", "wire")}, False, False),
        (
            ["crates/store/tests/wire/a.rs", "crates/store/tests/big/a.rs"],
            {"store": ("--test", "big", "--test", "wire")},
            False,
            False,
        ),
        (["crates/store/tests/common/mod.rs"], {"store": ("--tests",)}, False, True),
        (["crates/testkit/src/lib.rs"], {"testkit": ("--tests",)}, False, False),
        (["crates/gone/src/lib.rs", "docs/a.md"], {}, False, False),
        (["Cargo.lock"], {}, True, True),
    ],
)
def test_crates_are_tested_that_changed(
    tmp_path: Path, changes: list[str], tests: dict[str, tuple[str, ...]], whole: bool, native: bool
) -> None:
    files = ("store/Cargo.toml", "store/tests/wire.rs", "store/tests/big/main.rs", "testkit/Cargo.toml")
    root = tree(tmp_path, {f"crates/{name}": "" for name in files})

    assert changed.changed_crates(root, changes) == (tests, whole, native)


def test_the_change_is_the_working_tree_else_the_last_commit(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    for name in ("a.py", "odd \u00e9.py"):
        tree(tmp_path, {name: ""})
        git("add", ".")
        git("commit", "-m", name)
    assert changed.changed_files(tmp_path, None) == ("HEAD~1", ["odd \u00e9.py"])

    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert changed.changed_files(tmp_path, None) == ("HEAD", ["a.py", "b.py"])
    assert changed.changed_files(tmp_path, "HEAD~1") == ("HEAD~1", ["a.py", "b.py", "odd \u00e9.py"])
    with pytest.raises(SystemExit, match="make lint test"):
        changed.changed_files(tmp_path, "HEAD~5")


def test_real_changes_choose_their_tests() -> None:
    tests = {
        "python/seqferry/cost/lines.py": "tests/unit/cost/test_cost_lines.py",
        "python/seqferry/cli/commands/cp.py": "tests/unit/cli/test_cli_help.py",
        "docs/use/options.md": "tests/unit/test_docs.py",
        "tools/changed.py": "tests/unit/test_changed.py",
    }
    chosen = changed.choose_tests(changed.Sources(ROOT, tests))

    assert set(tests.values()) <= set(chosen.run)


def test_a_step_that_fails_is_printed_whole_and_the_next_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [changed.Step("first", ("sh", "-c", "echo one; echo two; exit 3")), changed.Step("next", ("echo", "three"))]

    assert changed.run_steps(steps) == ["first"]
    assert capsys.readouterr().out.splitlines()[2:4] == ["one", "two"]


def test_lists_of_steps_hold_what_the_change_concerns() -> None:
    crates = changed.Crates({"store": ("--tests",), "py": ("--tests",)}, False, True)
    commands = changed.Commands(cargo_test=("env", "A=1", "cargo", "test"))

    found = changed.long_steps(["web/a.ts"], ["tests/unit/test_a.py"], ["python/a.py"], crates, commands)

    assert [[step.name for step in steps] for steps in found] == [
        ["pytest"],
        ["clippy", "tests of store"],
        ["pyright"],
        ["page"],
    ]
    command = found[1][1].command
    assert command[:5] == ("env", "A=1", "cargo", "test", "--quiet")
    assert command[-4:] == (*changed.WORKSPACE, "--tests")
    runner = json.loads(command[command.index("--config") + 1].partition("=")[2])
    for crate, printed in (("store", "a b\n"), ("store-testing", ""), ("rows", "")):
        environment = {**os.environ, "CARGO_PKG_NAME": f"seqferry-{crate}"}
        ran = subprocess.run([*runner, "echo", "a b"], env=environment, check=True, capture_output=True, text=True)
        assert ran.stdout == printed
    assert changed.long_steps([], [], [], changed.Crates({}, False, False), commands) == []
