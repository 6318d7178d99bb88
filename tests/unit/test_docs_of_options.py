"""Each sentence of the documentation that says which command takes which option is held against the command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from seqferry.cli.app import application
from seqferry.cli.commands import schedule
from seqferry.model import foreign_options
from seqferry.model.option_fields import option_fields
from seqferry.model.option_groups import Attributes, Filters, Protection
from seqferry.spec.option_groups import AccessOptions, Endpoints, NameOptions, OneEndpoint, SpeedOptions

OPTIONS = (Path(__file__).parents[2] / "docs/use/options.md").read_text()
STRICT = ("What to copy, and how", "Speed of the process that works")
"""Sections whose options are those of each command in their heading."""


def _commands() -> dict[str, Any]:
    """All commands by their names, as ``schedule add``."""
    found: dict[str, Any] = {}
    todo = [("", typer.main.get_command(application([])))]
    while todo:
        name, command = todo.pop()
        found[name] = command
        todo += [(f"{name} {verb}".strip(), one) for verb, one in getattr(command, "commands", {}).items()]
    return found


COMMANDS = _commands()


def _options_of(verb: str) -> set[str]:
    command = COMMANDS.get(verb)
    assert command is not None, f"there is no command {verb}"
    own = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    return own.union(*(_options_of(f"{verb} {below}".strip()) for below in getattr(command, "commands", {})))


class Row(NamedTuple):
    """A row of a table of options.

    Attributes:
        verbs: commands that have all of the options.
        one_of: commands of which one at least has each option.
    """

    options: tuple[str, ...]
    verbs: tuple[str, ...]
    one_of: tuple[str, ...]


def _rows() -> list[Row]:
    found: list[Row] = []
    heading, columns = "", list[str]()
    for line in OPTIONS.splitlines():
        if line.startswith("## "):
            heading, columns = re.sub(r"`cache ([a-z|]+)`", _spell_out, line), []
        if not line.startswith("| "):
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not columns or cells[0].startswith("option"):
            columns = cells
            continue
        options = tuple(re.findall(r"`(--[a-z0-9-]+)`", cells[0]))
        of = [cell for column, cell in zip(columns, cells, strict=True) if column in ("of", "command")]
        begins = re.match(r"(?:`[a-z ]+`(?:, | and )?)+:", cells[-1])
        in_heading = _verbs(heading)
        named = _verbs(of[0]) if of else _verbs(begins[0], in_heading) if begins else ()
        if not named and any(title in heading for title in STRICT):
            named = in_heading
        found.append(Row(options, named, () if "all commands" in heading else in_heading))
    return [row for row in found if row.options]


def _spell_out(match: re.Match[str]) -> str:
    return ", ".join(f"`cache {verb}`" for verb in match[1].split("|"))


def _verbs(text: str, near: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Commands that are named in a text: those of the groups of ``near`` before others."""
    groups = [name for one in near for name in (one, one.rpartition(" ")[0]) if name]
    found: list[str] = []
    for verb in re.findall(r"`([a-z][a-z -]*?)(?: --[a-z-]+)?`", text):
        below = [f"{group} {verb}" for group in groups if f"{group} {verb}" in COMMANDS]
        found += below[:1] or [verb] * (verb in COMMANDS)
    return tuple(found)


def test_each_table_names_options_that_its_commands_have() -> None:
    rows = _rows()
    # Within a group of commands, "`mirror`: ..." names one of the group.
    lacking = [(verb, one) for row in rows for verb in row.verbs for one in row.options if one not in _options_of(verb)]
    of_one = [(row, set[str]().union(*map(_options_of, row.one_of))) for row in rows if row.one_of and not row.verbs]
    unknown = [row for row, there in of_one if not set(row.options) <= there]

    assert len(rows) > 200
    assert sum(bool(row.verbs) for row in rows) > 80
    assert lacking == []
    assert unknown == []


def test_a_command_that_takes_the_options_of_another_but_some_refuses_these_alone() -> None:
    text = " ".join(OPTIONS.split())
    found = re.findall(r"`(\w+)` takes (?:the options of `cp`|the same) but ((?:`--[a-z-]+`(?:, | and )?)+)", text)

    assert [verb for verb, _ in found] == ["sync", "mv"]
    for verb, refused in found:
        assert _options_of("cp") - _options_of(verb) == set(re.findall(r"--[a-z-]+", refused)), verb


def _of(*groups: type[Any]) -> set[str]:
    return {f"--{one.name.replace('_', '-')}" for group in groups for one in option_fields(group)}


@pytest.mark.parametrize(
    ("verb", "takes", "refuses"),
    [
        # As the page says of each.
        ("check", (Filters, NameOptions, Endpoints, SpeedOptions, AccessOptions), (Protection, Attributes)),
        ("verify", (Filters, NameOptions, OneEndpoint, SpeedOptions, AccessOptions), (Protection, Attributes)),
        ("pack", (Filters, NameOptions, Endpoints, SpeedOptions), (Protection, Attributes, AccessOptions)),
        ("unpack", (Filters, NameOptions, Endpoints, SpeedOptions), (Protection, Attributes, AccessOptions)),
        ("mv", (Filters, NameOptions, Endpoints, SpeedOptions, AccessOptions, Protection, Attributes), ()),
    ],
)
def test_a_command_takes_the_groups_of_options_that_are_said(verb: str, takes: Any, refuses: Any) -> None:
    assert _of(*takes) - _options_of(verb) - {"--rules", "--rename"} == set()
    assert _of(*refuses) & _options_of(verb) == set()


@pytest.mark.parametrize("verb", sorted(foreign_options.TRANSLATED_VERBS - {"mount"}))
def test_an_option_of_others_becomes_one_that_the_command_has(verb: str) -> None:
    there = _options_of(verb) | {"--"}
    by_typed = foreign_options.OPTIONS_BY_TYPED_VERB
    typed = ["", *(name for name in by_typed if foreign_options.VERBS.get(name, (name,))[0] == verb)]

    refused = {
        (name, option)
        for word in typed
        for name, meaning in foreign_options.options_of_verb(verb, word).items()
        for option in meaning.ours
        if option.startswith("-") and option not in there
    }

    assert refused == set()


ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "deploy").rglob("*.md"))]
LINE = re.compile(r"(?:^|[`(:;|&]|\$ |&& )\s*seqferry ((?:[a-z0-9][\w-]*|--?[a-z][\w-]*)[^`\n]*)", re.MULTILINE)
"""A command line of the program: at the start of a line or of a piece of code."""


def _command_lines() -> list[tuple[str, str]]:
    """Each command line in the documentation, with the page that it stands on."""
    found: list[tuple[str, str]] = []
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        found += [(page.name, one[1]) for one in LINE.finditer(text)]
    return found


def _lacking(line: str) -> set[str]:
    """Options of a command line that its command does not have, in its own words or in those of others."""
    line = re.split(r"\s(?:[#|;&>]|&&|\|\|)(?:\s|$)", line)[0]
    verb: list[str] = []
    named: list[str] = []
    for word in line.split():
        if word.startswith("-"):
            named.append(re.split(r"[=\]),.;:]", word)[0])
        elif not named and " ".join((*verb, word)) in COMMANDS:
            verb.append(word)
    if not verb or verb[0] in ("aws", "s5cmd"):  # these take the words of their tools
        return set()
    name = " ".join(verb)
    meant = foreign_options.options_of_verb(verb[0], verb[0]) if verb[0] in foreign_options.TRANSLATED_VERBS else {}
    there = _options_of(name) | {"--version"} | set(meant) | {"--help", "-n", "--"}
    if name == "schedule add":
        # The options of the command that begins stand beside those of the schedule.
        there |= set[str]().union(*(_options_of(word) for word in line.split() if word in schedule.SPECS))
    return {f"{name} {option}" for option in named if option.startswith("--") and option not in there}


def test_each_command_line_in_the_documentation_can_be_typed() -> None:
    found = _command_lines()

    assert len(found) > 300
    assert [(page, sorted(lacking)) for page, line in found if (lacking := _lacking(line))] == []
