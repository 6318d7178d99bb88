"""Help and completion are made of the same commands; each command has examples that it takes."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from seqferry.cli import command_tree, errors, examples, help_text
from seqferry.cli.app import GROUPS, run
from seqferry.cli.commands import completion
from seqferry.model.errors import UsageError

TREE = command_tree.build_tree()
COMMANDS = dict(command_tree.walk_commands(TREE))
NAMES = sorted(" ".join(path) for path in COMMANDS)
_LEAVES = [" ".join(path) for path, command in COMMANDS.items() if not hasattr(command, "commands")]
_WITHOUT = {"aws s3 cp", "aws s3 ls", "s5cmd cp", "s5cmd ls"}


@pytest.mark.parametrize("name", ["", *NAMES])
@pytest.mark.parametrize("columns", [80, 200])
def test_help_fits_its_columns(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERMINAL_WIDTH", str(columns))

    assert run([*name.split(), "--help"]) == 0

    out = capsys.readouterr().out
    assert out
    assert max(map(len, out.splitlines())) <= 100


def _help(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(arguments) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", ["-h", "--help"])
def test_commands_are_listed_by_group_with_a_line_each(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = _help([name], monkeypatch, capsys)

    assert [line[:-1] for line in lines if line.endswith(":") and line[0] != " "] == ["Options", *GROUPS]
    assert len(lines) <= 80
    for group, names in GROUPS.items():
        start = lines.index(f"{group}:")
        listed = lines[start + 1 : lines.index("", start)]
        assert sorted(line.split()[0] for line in listed) == sorted(names)


_LONG = [name for name in _LEAVES if help_text.has_short_view(COMMANDS[tuple(name.split())])]


def test_commands_with_many_options_have_a_short_help() -> None:
    assert {"cp", "sync", "mv", "mount", "pack", "unpack", "check"} <= set(_LONG)


@pytest.mark.parametrize("name", _LONG)
def test_the_short_help_shows_common_options_alone(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [one for one in COMMANDS[tuple(name.split())].params if one.param_type_name == "option"]
    common = {one.opts[0] for one in options if help_text.is_common(one)}

    lines = _help([*name.split(), "-h"], monkeypatch, capsys)

    shown = {word.rstrip(",") for line in lines if re.match(r"  -", line) for word in line.split()[:2]}
    assert common <= shown | {"-r"}
    assert not {one.opts[0] for one in options} - common & shown
    assert 8 <= len(common) <= 20
    assert len(lines) <= 80
    assert f"  All options: seqferry {name} --help" in lines


@pytest.mark.parametrize("name", _LEAVES)
def test_variables_are_in_a_help_of_their_own(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = set(help_text.variables(COMMANDS[tuple(name.split())]).values())

    assert not [line for line in _help([*name.split(), "--help"], monkeypatch, capsys) if "[env" in line]
    shown = "\n".join(_help([*name.split(), "--help-env"], monkeypatch, capsys))
    assert set(re.findall(r"\b(?:SEQFERRY|NXF)_[A-Z0-9_]+$", shown, re.MULTILINE)) == variables


def test_the_state_folder_has_a_variable() -> None:
    assert help_text.variables(COMMANDS["cp",])["--state-dir"] == "SEQFERRY_STATE_DIR"


_DIALECT = re.compile(
    r"\b(told|at once|looks? at|looked at|nobody|whoever|evidence|mend|proven?|side by side|doors?|so many|"
    r"taken? in again|what matches)\b"
)


@pytest.mark.parametrize("name", ["", *NAMES])
def test_help_uses_the_terms_of_the_field(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _DIALECT.findall("\n".join(_help([*name.split(), "--help"], monkeypatch, capsys))) == []


@pytest.mark.parametrize("name", _LEAVES)
def test_each_command_shows_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    group = name.split()[0]
    shown = examples.find_examples(name) or examples.find_examples(group)
    if not shown:
        pytest.skip("a part of another program's interface, or of a group without examples")

    assert run([*name.split(), "--help"]) == 0

    if examples.find_examples(name):
        out = capsys.readouterr().out
        assert "Examples:" in out
        assert all(line in out for line, _ in examples.find_examples(name))


@pytest.mark.parametrize(
    ("name", "line"), [(name, line) for name in NAMES for line, _ in examples.find_examples(name) if "$(" not in line]
)
def test_examples_name_options_that_there_are(name: str, line: str) -> None:
    words = shlex.split(line.split(" | ")[0].split(" > ")[0])
    command = COMMANDS[tuple(name.split())]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}

    assert words[: 1 + len(name.split())] == ["seqferry", *name.split()]
    assert {word for word in words if word.startswith("--")} <= known | {"--include", "--exclude"}


def test_commands_of_today_have_examples() -> None:
    top = {path[0] for path in COMMANDS if len(path) == 1}

    assert {"cp", "sync", "ls", "status", "resume", "cancel", "serve", "worker", "completion"} <= top
    assert not {name for name in top if name not in examples.EXAMPLES}


@pytest.mark.parametrize(
    ("line", "among"),
    [
        ("seqferry ", {"cp", "sync", "status"}),
        ("seqferry sta", {"status"}),
        ("seqferry tar ", {"ls", "verify"}),
        ("seqferry cp --if-ex", {"--if-exists"}),
        ("seqferry cp --if-exists ", {"same", "skip", "overwrite", "fail"}),
        ("seqferry cp --if-exists s", {"same", "skip"}),
        ("seqferry --profile lab cp --ver", {"--verify"}),
        ("seqferry copy --if-ex", {"--if-exists"}),
        ("seqferry cp s", {"s3://"}),
        ("seqferry completion b", {"bash"}),
    ],
)
def test_words_complete(line: str, among: set[str]) -> None:
    assert among <= set(completion.words(line))


@pytest.mark.parametrize(
    "line", ["", "seqferry", "seqferry fly ", "seqferry cp /da", "seqferry cp --profile ", "seqferry cp '"]
)
def test_what_is_not_known_is_left_to_the_shell(line: str) -> None:
    assert completion.words(line) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_valid_where_their_shell_is(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0

    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    assert "seqferry completion" in script.read_text()
    if (found := shutil.which(shell)) is not None:
        subprocess.run([found, "-n", str(script)], check=True)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Cannot read x: it is gone..", "Cannot read x: it is gone."),
        ("Did you mean 'cp'?.", "Did you mean 'cp'?"),
        ("It goes on ...", "It goes on ..."),
        ("See ../x and a..b.", "See ../x and a..b."),
    ],
)
def test_no_error_ends_twice(message: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    errors.report_error(UsageError(message), as_json=False)

    assert capsys.readouterr().err == f"seqferry: {shown}\n"


@pytest.mark.parametrize("arguments", [("copi",), ("cp", "--if-exist", "x"), ("cp",), ("status", "--nope"), ("fly",)])
def test_usage_errors_are_sentences(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(list(arguments)) == 2

    err = capsys.readouterr().err
    assert not re.search(r"[?!.][.](\s|$)", err), err
    assert re.search(r"See `seqferry.* --help`\.$", err.strip()), err
