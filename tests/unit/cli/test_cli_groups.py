"""Options come in groups that commands share: once written, shown in panels, and given as values."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import get_type_hints

import pytest

from seqferry.api.schemas import TransferRequest
from seqferry.carrying import Given
from seqferry.cli import control, copying, groups, packing
from seqferry.cli.app import run
from seqferry.cli.carried import Attributes, Protection
from seqferry.models import OPERATION_TRANSFER
from seqferry.spec import build_one

COMMANDS = (copying.cp, copying.sync, packing.pack, control.resume, control.cancel)


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
    assert panels == ["Arguments", "Selection", "Speed", "Storage", "Protection", "Metadata", "Output", "Examples"]
    of_panel = {panel: shown.split(f"\n{panel}:\n")[1].split("\n\n")[0] for panel in panels}
    assert ("--delete" in of_panel["Selection"]) == (command == "sync")
    assert "--if-exists" in of_panel["Selection"]
    assert "--max-requests" in of_panel["Speed"]
    assert "--endpoint-url" in of_panel["Storage"]
    assert "--sse-kms-key-id" in of_panel["Protection"]
    assert "--content-type" in of_panel["Metadata"]
    assert "--json" in of_panel["Output"]
    assert "--help" in of_panel["Output"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_no_option_is_in_two_groups_of_a_command(command: object) -> None:
    kinds = groups.of_command(command)  # type: ignore[arg-type]
    names = [one.name for kind in kinds.values() for one in fields(kind)]

    assert kinds
    assert len(names) == len(set(names))


def test_the_options_of_a_spec_are_those_of_the_groups_and_of_http() -> None:
    parameters = inspect.signature(build_one).parameters
    carried = {one.name: one.default for kind in (Protection, Attributes) for one in fields(kind)}
    kinds = (
        groups.Selection,
        groups.Filters,
        groups.Removal,
        groups.Parts,
        groups.Storage,
        groups.Endpoints,
        groups.Versions,
    )
    of_groups = {one.name: one.default for kind in kinds for one in fields(kind)}
    rest = {name: one.default for name, one in parameters.items() if name not in ("source", "target")}
    of_http = {name: one.default for name, one in TransferRequest.model_fields.items()}

    del rest["properties"]
    assert {name: of_http.pop(name) for name in carried} == carried
    assert set(carried) == set(get_type_hints(Given)) | {name for name in carried if rest.pop(name, "") is None}
    # Made of the group of names, and given as they are over HTTP.
    assert rest.pop("rules") is None is of_http.pop("rules")
    assert rest.pop("keys") is None is of_http.pop("keys")
    assert rest.pop("rename") is None is of_http.pop("rename")
    assert rest.pop("versions") == () == rest.pop("targets")
    assert of_http.pop("objects") is None
    assert rest.pop("attempts") is None is of_http.pop("attempts")
    assert rest.pop("tpslimit") is None is of_http.pop("tpslimit")
    assert rest.pop("preflight") is True is of_http.pop("preflight")  # --no-preflight is one of those of the start
    assert rest.pop("inventory") is None is of_http.pop("inventory")
    assert {name: rest[name] for name in rest if name not in ("below", "allow_local")} == of_groups
    assert of_http.pop("new") is False
    assert of_http.pop("priority") == 0
    assert of_http.pop("operation") == OPERATION_TRANSFER
    assert of_http.pop("options") == {}
    assert {name: of_http[name] for name in of_http if name not in ("source", "target")}.items() <= of_groups.items()
