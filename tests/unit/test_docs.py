"""The documentation says what there is: every option, every exit code, every test that holds a claim."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

from seqferry.cli import display, exits, summary
from seqferry.cli.app import application
from seqferry.cli.status import status_facts
from seqferry.models import Location, ObjectRecord, Status, Totals, TransferSpec

ROOT = Path(__file__).parents[2]
CONFIGURATION = (ROOT / "docs/configuration.md").read_text()


def options() -> list[tuple[str, str]]:
    """Every option of every command, with its environment variable."""
    found: set[tuple[str, str]] = set()
    todo = [*typer.main.get_command(application([])).commands.values()]  # type: ignore[attr-defined]
    while todo:
        command = todo.pop()
        todo += getattr(command, "commands", {}).values()
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name != "help":
                long = max(parameter.opts, key=len)
                found.add((long, parameter.envvar or f"SEQFERRY_{parameter.name.upper()}"))
    return sorted(found)


@pytest.mark.parametrize(("option", "variable"), options())
def test_every_option_and_its_variable_are_documented(option: str, variable: str) -> None:
    assert f"`{option}`" in CONFIGURATION
    assert f"`{variable}`" in CONFIGURATION


def test_no_option_is_documented_that_is_not_there() -> None:
    documented = set(re.findall(r"`(--[a-z-]+)`", CONFIGURATION))
    there = {option for option, _ in options()} | {"--dryrun"}

    assert documented <= there


def test_the_exit_codes_are_documented() -> None:
    for name in ("OK", "FAILED", "USAGE", "MISMATCH", "NOTHING", "INTERRUPTED"):
        assert f"\n| {getattr(exits, name)} |" in CONFIGURATION


def test_the_fields_of_json_events_are_documented() -> None:
    now = Status("id", "done", TransferSpec(Location("a"), Location("b")), Totals(), True, 0.0, "ada")
    nothing: dict[str, Any] = {field.name: None for field in fields(ObjectRecord)}
    record = ObjectRecord(**{**nothing, "not_carried": ()})

    shown = {
        *display.progress_facts(now),
        *summary.facts(summary.Result(now, [], []), 0),
        *status_facts(now),
        *summary.object_facts(record),
    }

    assert not {field for field in shown if f"`{field}`" not in CONFIGURATION}


def claims() -> list[tuple[str, str]]:
    text = (ROOT / "docs/semantics.md").read_text()
    return re.findall(r"`((?:tests|crates)/[\w/.]+)::(\w+)`", text)


@pytest.mark.parametrize(("file", "test"), claims())
def test_the_tests_that_hold_a_claim_exist(file: str, test: str) -> None:
    assert re.search(rf"\b(?:def|fn) {test}\(", (ROOT / file).read_text()), f"{file} has no {test}"


def test_there_are_claims() -> None:
    assert len(claims()) > 20


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(ROOT / "docs").glob("*.md")], ids=str
)
def test_links_lead_somewhere(page: str | Path) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target
