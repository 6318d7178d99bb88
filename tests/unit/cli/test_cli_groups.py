"""Options come in groups that commands share: once written, shown in panels, and given as values."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import import_module
from inspect import signature

import pytest

from seqferry.cli import grouped_options
from seqferry.cli.app import run
from seqferry.cli.commands import cancel, cp, pack, resume, sync

COMMANDS = (cp.cp, sync.sync, pack.pack, resume.resume, cancel.cancel)


def _help(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run([command, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", ["cp", "sync", "pack", "resume", "cancel", "ls", "serve", "status", "worker"])
@pytest.mark.parametrize("columns", [200, 80])
def test_the_help_fits_the_screen(
    command: str, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = _help(command, monkeypatch, capsys, columns).splitlines()

    assert max(map(len, lines)) <= min(columns, 100)


@pytest.mark.parametrize("command", ["cp", "sync"])
def test_the_help_shows_options_in_panels(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = _help(command, monkeypatch, capsys, 100)

    panels = re.findall(r"^(\w+):$", shown, flags=re.MULTILINE)
    of_objects = ["Arguments", "Selection", "Speed", "Storage", "Protection", "Metadata"]
    assert panels == [*of_objects, "Transfer", "Output", "Examples"]
    of_panel = {panel: shown.split(f"\n{panel}:\n")[1].split("\n\n")[0] for panel in panels}
    assert ("--delete" in of_panel["Selection"]) == (command == "sync")
    assert "--if-exists" in of_panel["Selection"]
    assert "--max-requests" in of_panel["Speed"]
    assert "--endpoint-url" in of_panel["Storage"]
    assert "--sse-kms-key-id" in of_panel["Protection"]
    assert "--content-type" in of_panel["Metadata"]
    assert "--dry-run" in of_panel["Transfer"]
    assert "--json" in of_panel["Output"]
    assert "--help" in of_panel["Output"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_no_option_is_in_two_groups_of_a_command(command: object) -> None:
    kinds = grouped_options.command_groups(command)  # type: ignore[arg-type]
    names = [one.name for kind in kinds.values() for one in fields(kind)]

    assert kinds
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["bench", "cache", "cost", "tar"])
def test_the_commands_of_a_group_are_made_of_groups_of_options_each_time(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = import_module(f"seqferry.cli.commands.{name}")
    commands = getattr(module, name).registered_commands

    kinds = [grouped_options.command_groups(one.callback) for one in commands]
    assert all(kinds[at] or not signature(one.callback).parameters for at, one in enumerate(commands))
    for _ in range(2):
        monkeypatch.setenv("COLUMNS", "100")
        assert run([name, commands[0].name or commands[0].callback.__name__, "--help"]) == 0
        assert "\nOutput:\n" in capsys.readouterr().out
