"""Every option of ``aws s3`` either passes or is refused with its reason, in the command and as ``aws`` in a task.

The options of version 1 are those of the AWS CLI that is installed for the tests; those of version 2, which has no
package for Python, are the table ``_OF_VERSION_2``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import awscli
import awscli.customizations.s3.subcommands as subcommands
import pytest
import typer
from awscli.customizations.s3.syncstrategy import (
    delete,
    exacttimestamps,
    sizeonly,
)
from typer._click.exceptions import NoSuchOption
from typer._click.exceptions import UsageError as CommandLineError

from seqferry.cli.app import application
from seqferry.cli.foreign_commands import translate
from seqferry.model.errors import UsageError
from seqferry.nextflow import aws
from seqferry.nextflow.arguments import RefusedError

_COMMANDS: Final[tuple[Any, ...]] = (
    subcommands.ListCommand,
    subcommands.CpCommand,
    subcommands.MvCommand,
    subcommands.SyncCommand,
    subcommands.RmCommand,
    subcommands.MbCommand,
    subcommands.RbCommand,
    subcommands.PresignCommand,
)
_OF_SYNC: Final[tuple[Any, ...]] = (delete.DELETE, exacttimestamps.EXACT_TIMESTAMPS, sizeonly.SIZE_ONLY)

_PLACES: Final = {
    "ls": "s3://bucket/runs/",
    "cp": "s3://bucket/runs/ s3://other/",
    "mv": "s3://bucket/runs/ s3://other/",
    "sync": "s3://bucket/runs/ s3://other/",
    "rm": "s3://bucket/runs/x",
    "mb": "s3://bucket",
    "rb": "s3://bucket",
    "presign": "s3://bucket/runs/x",
}

_VALUES: Final = {
    "include": "*.bam",
    "exclude": "*.log",
    "grants": "read=id=79a5 full=id=80b6",
    "metadata": "run=42",
    "expires": "2026-11-30T00:00:00Z",
    "endpoint-url": "https://s3.example.org",
    "tags": "run 42",
}
"""Values of options that take no number."""

_COPIED: Final = (
    *("tags run 42", "progress-frequency 5", "progress-multiline", "no-overwrite"),
    *("copy-props none", "copy-props metadata-directive", "copy-props default"),
)
_GLOBAL: Final = (
    *("output yaml", "output yaml-stream", "output off", "no-cli-pager", "cli-auto-prompt", "no-cli-auto-prompt"),
    *("cli-binary-format base64", "cli-binary-format raw-in-base64-out", "cli-error-format json"),
)
_OF_VERSION_2: Final = {"cp": _COPIED, "mv": _COPIED, "sync": _COPIED}
"""Options that version 2 has beside those of version 1, with their values. AWS CLI Command Reference, November 2026."""


def _lines(option: dict[str, Any]) -> Iterator[str]:
    """The option with each of its values."""
    name = option["name"]
    if option.get("action") in ("store_true", "store_false"):
        yield name
    elif choices := option.get("choices"):
        yield from (f"{name} {choice}" for choice in choices)
        if option.get("nargs") == "?":
            yield name
    else:
        yield f"{name} {_VALUES.get(name, 7)}"


def _global_lines() -> Iterator[str]:
    model = json.loads((Path(awscli.__file__).parent / "data/cli.json").read_text())
    for name, option in model["options"].items():
        if option.get("action") != "version":
            yield from _lines({"name": name, **option})


def _cases(verbs: tuple[str, ...] = tuple(_PLACES)) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for command in _COMMANDS:
        options = [*command.ARG_TABLE, *(_OF_SYNC if command.NAME == "sync" else ())]
        lines = [line for option in options if not option.get("positional_arg") for line in _lines(option)]
        lines += [*_OF_VERSION_2.get(command.NAME, ()), *_global_lines(), *_GLOBAL]
        found += [(command.NAME, line) for line in lines if command.NAME in verbs]
    return found


@functools.cache
def _command(verb: str) -> Any:
    group: Any = typer.main.get_command(application([verb]))
    return group.commands[verb]


def _refusal(words: list[str]) -> str:
    """Reason why our command does not take these words; empty when it does."""
    try:
        ours = translate(words)
        with _command(ours[0]).make_context(ours[0], ours[1:]):
            return ""
    except UsageError as why:
        return str(why)
    except NoSuchOption as why:
        return f"unknown: {why.format_message()}"
    except CommandLineError as why:
        return why.format_message()


@pytest.mark.parametrize(("verb", "line"), _cases())
def test_an_option_of_the_aws_cli_passes_or_is_refused_by_name_with_its_reason(verb: str, line: str) -> None:
    option = f"--{line}".split()

    why = _refusal(["s3", verb, *_PLACES[verb].split(), *option])

    assert not why or (option[0] in why and not why.startswith("unknown")), why


@pytest.mark.parametrize("line", [*_global_lines(), *_GLOBAL])
def test_a_global_option_says_the_same_before_the_verb(line: str) -> None:
    option = f"--{line}".split()
    for verb, places in _PLACES.items():
        before = _refusal([*option, "s3", verb, *places.split()])
        assert before == _refusal(["s3", verb, *places.split(), *option])


@pytest.mark.parametrize(
    "line",
    [
        *("case-conflict ignore", "case-conflict warn", "checksum-mode ENABLED", "progress-frequency 5"),
        *("no-paginate", "cli-read-timeout 0", "cli-connect-timeout 5", "output json", "color on", "query x"),
        *("no-overwrite", "no-guess-mime-type", "expected-size 5", "tags run 42", "no-cli-pager"),
    ],
)
def test_what_is_harmless_passes(line: str) -> None:
    option = f"--{line}".split()

    assert _refusal(["s3", "cp", *_PLACES["cp"].split(), *option]) == ""
    aws._command(["s3", "cp", "a", "s3://b/a", *option])


@pytest.mark.parametrize(
    ("verb", "line", "said"),
    [
        ("cp", "case-conflict error", "two files"),
        ("sync", "case-conflict skip", "--exclude"),
        ("ls", "bucket-name-prefix lab", "grep PREFIX"),
        ("mb", "tags run 42", "does not configure"),
        ("cp", "website-redirect x", "redirect"),
        ("cp", "cli-error-format json", "--json"),
        ("cp", "checksum-algorithm XXHASH64", "CRC64NVME"),
    ],
)
def test_what_is_not_is_refused_with_what_to_write(verb: str, line: str, said: str) -> None:
    assert said in _refusal(["s3", verb, *_PLACES[verb].split(), *f"--{line}".split()])


@pytest.mark.parametrize(("verb", "line"), _cases(("cp", "ls")))
def test_aws_in_a_task_takes_each_option_or_says_why_not(verb: str, line: str) -> None:
    why = ""
    try:
        aws._command(["s3", verb, *_PLACES[verb].split(), *f"--{line}".split()])
    except (RefusedError, UsageError) as refused:
        why = str(refused)

    assert not why or (f"--{line.split()[0]}" in why and "Unknown options" not in why), why


def test_a_tag_of_two_words_is_one_of_ours() -> None:
    assert translate(["cp", "--tags", "run", "42", "a", "s3://b"]) == ["cp", "--tags=run=42", "a", "s3://b"]
    assert translate(["cp", "--tags", "run=42", "a", "s3://b"]) == ["cp", "--tags", "run=42", "a", "s3://b"]
