"""Words of other tools: each documented, and none of ours changed by being translated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from seqferry.cli.app import application, run
from seqferry.cli.foreign_commands import OPTIONS, REFUSALS, VERBS, translate
from seqferry.model.errors import UsageError
from seqferry.model.foreign_options import VERB_REFUSALS

PAGE = (Path(__file__).parents[3] / "docs/use/coming-from.md").read_text()


@pytest.mark.parametrize("word", [*OPTIONS, *REFUSALS, *VERBS])
def test_each_word_is_documented(word: str) -> None:
    assert f"`{word}" in PAGE or f" {word}`" in PAGE


@pytest.mark.parametrize("option", sorted(REFUSALS))
def test_what_has_no_equal_is_answered_by_name(option: str) -> None:
    for line in (["sync", option, "a", "b"], [option, "sync", "a", "b"]):
        with pytest.raises(UsageError, match=rf"^{option}: "):
            translate(line)


@pytest.mark.parametrize("verb", sorted(VERB_REFUSALS))
def test_a_verb_without_an_equal_is_answered_in_one_line(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "s3://b/x"]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"seqferry: {verb}: ")
    assert len(err.splitlines()) == 1


LINES = [
    # Verbs.
    ("s3 cp SRC DST --recursive", "cp SRC DST --recursive"),
    ("s3 sync SRC DST --exclude *.log", "sync SRC DST --exclude *.log"),
    ("copy SRC DST", "cp SRC DST"),
    ("copyto SRCa.txt DSTz.txt", "cp SRCa.txt DSTz.txt"),
    ("get -r SRC/run OUT/x", "cp -r SRC/run OUT/x"),
    ("move SRC DST", "mv SRC DST"),
    ("moveto SRCa.txt DSTa.txt", "mv SRCa.txt DSTa.txt"),
    ("del SRCa.txt", "rm SRCa.txt"),
    ("deletefile SRCa.txt", "rm SRCa.txt"),
    ("delete SRC", "rm --recursive SRC"),
    ("purge SRC", "rm --recursive SRC"),
    ("lsl SRC", "ls --recursive SRC"),
    ("lsf SRC", "ls SRC"),
    ("s3 ls SRC --recursive --page-size 10", "ls SRC --recursive"),
    ("size SRC", "du SRC"),
    ("stat SRCa.txt", "head SRCa.txt"),
    ("version", "--version"),
    ("help", "--help"),
    ("help mv", "mv --help"),
    # Standard input and output.
    ("pipe DSTpiped", "cp - DSTpiped"),
    ("rcat DSTpiped", "cp - DSTpiped"),
    ("cat SRCa.txt", "cp --quiet SRCa.txt -"),
    ("s3 cat SRCa.txt", "cp --quiet SRCa.txt -"),
    ("cat SRC*.txt SRCb.log", "cp --quiet SRC*.txt SRCb.log -"),
    ("cat --raw SRC*", "cp --quiet --raw SRC* -"),
    ("cat -v SRCa.txt", "cp SRCa.txt -"),
    ("cat SRCa.txt --verbose", "cp SRCa.txt -"),
    ("--verbose cat SRCa.txt", "cp SRCa.txt -"),
    ("cat -v --range 0-3 SRCa.txt", "cat --range 0-3 SRCa.txt"),
    ("cat --head 7 SRC*.txt", "cat --range 0-6 SRC*.txt"),
    ("cat --tail 3 SRCa.txt", "cat --range -3 SRCa.txt"),
    ("cat --offset 7 SRCa.txt", "cat --range 7- SRCa.txt"),
    # What happens without a word.
    ("cp --progress SRC DST", "cp SRC DST"),
    ("cp --show-progress -v SRC DST", "cp SRC DST"),
    ("copy -P SRC DST", "cp SRC DST"),
    ("cp --no-guess-mime-type --expected-size 100 SRC DST", "cp SRC DST"),
    ("cp SRC DST --page-size 100 --ignore-glacier-warnings", "cp SRC DST"),
    ("copy -v --stats 10s --checkers 8 --fast-list SRC DST", "cp SRC DST"),
    ("ls -l SRC", "ls SRC"),
    # Options of ours under other names.
    ("cp -a SRC DST", "cp --recursive SRC DST"),
    ("cp SRC DST --only-show-errors", "cp SRC DST --quiet"),
    ("sync --bwlimit 100M SRC DST", "sync --max-bandwidth 100M SRC DST"),
    ("copy --transfers 8 SRC DST", "cp --max-requests 8 SRC DST"),
    ("cp --concurrency 4 SRC DST", "cp --max-requests 4 SRC DST"),
    ("cp --numworkers 8 SRC DST", "cp --max-requests 8 SRC DST"),
    ("cp -c 4 -p 64 SRC DST", "cp --max-requests 4 --part-size 64MiB SRC DST"),
    ("cp --part-size 64 SRC DST", "cp --part-size 64MiB SRC DST"),
    ("copy --s3-chunk-size 64M --no-traverse SRC DST", "cp --part-size 64MiB SRC DST"),
    ("cp -n SRC DST", "cp --if-exists skip SRC DST"),
    ("mv -n SRC DST", "mv --if-exists skip SRC DST"),
    ("copy --ignore-existing SRC DST", "cp --if-exists skip SRC DST"),
    ("cp --no-overwrite SRC DST", "cp --if-exists skip SRC DST"),
    ("cp --immutable SRC DST", "cp --if-exists fail SRC DST"),
    ("cp -s SRC DST", "cp --if-exists size SRC DST"),
    ("cp --if-size-differ SRC DST", "cp --if-exists size SRC DST"),
    ("copy --size-only SRC DST", "cp --if-exists size SRC DST"),
    ("mv --size-only SRC DST", "mv --if-exists size SRC DST"),
    ("sync --size-only SRC DST", "sync --if-exists size SRC DST"),
    ("copy -n SRC DST", "cp --dry-run SRC DST"),
    ("copy --checksum SRC DST", "cp --verify checksum SRC DST"),
    ("copy -c SRC DST", "cp --verify checksum SRC DST"),
    ("copy --min-age 7d SRC DST", "cp --older-than 7d SRC DST"),
    ("sync --max-age 7d SRC DST", "sync --newer-than 7d SRC DST"),
    ("cp --no-follow-symlinks SRC DST", "cp --symlinks skip SRC DST"),
    ("cp SRC DST --source-region a --destination-region b", "cp SRC DST --source-region a --target-region b"),
    ("cp --request-payer requester SRC DST", "cp --request-payer=requester SRC DST"),
    ("cp --restore --days 3 --tier Bulk SRC DST", "cp --restore --restore-days 3 --restore-tier Bulk SRC DST"),
    ("pack --tier=Bulk SRC DSTz.tar", "pack --restore-tier Bulk SRC DSTz.tar"),
    ("ls --humanize SRC", "ls --human-readable SRC"),
    ("du --humanize SRC", "du --human-readable SRC"),
    ("rm -rf SRC", "rm --recursive --yes SRC"),
    ("rm -n -r SRC", "rm --dry-run -r SRC"),
    ("s3 rm SRC --recursive --only-show-errors", "rm SRC --recursive --quiet"),
    # Options before the verb.
    ("--endpoint-url URL cp SRC DST", "cp --endpoint-url URL SRC DST"),
    ("--endpoint-url=URL cp SRC DST", "cp --endpoint-url=URL SRC DST"),
    ("--profile typed cp SRC DST", "cp --profile typed SRC DST"),
    ("--no-sign-request cp SRC DST", "cp --no-sign-request SRC DST"),
    ("--json cp SRC DST", "cp --json SRC DST"),
    ("--quiet cp SRC DST", "cp --quiet SRC DST"),
    ("--dry-run cp SRC DST", "cp --dry-run SRC DST"),
    ("--dry-run rm SRC*", "rm --dry-run SRC*"),
    ("--no-paginate --color off --output json s3 cp SRC DST", "cp SRC DST"),
    ("--log error --stat --numworkers 16 cp SRC DST", "cp --max-requests 16 SRC DST"),
]
"""Lines as users of other tools type them, each with the line of ours that means the same."""


@pytest.mark.parametrize(("typed", "ours"), LINES, ids=[typed for typed, _ in LINES])
def test_a_line_of_another_tool_becomes_one_of_ours(typed: str, ours: str) -> None:
    words = translate(typed.split())

    assert words == ours.split()
    if "--help" not in words and "--version" not in words:
        _parse(words)


def _parse(words: list[str]) -> None:
    """Raises a usage error unless the command takes these words."""
    command: Any = typer.main.get_command(application(words))
    command.commands[words[0]].make_context(words[0], words[1:])


def test_the_meaning_of_n_in_a_sync_is_not_guessed() -> None:
    """Some tools do not overwrite then, and others make a dry run."""
    with pytest.raises(UsageError, match=r"^-n: .*--dry-run.*--if-exists skip"):
        translate(["sync", "-n", "SRC", "DST"])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--version"],
        ["cp", "--", "-r", "x"],
        ["cp", "--part-size", "64MiB", "a", "b"],
        ["status", "--json"],
        ["cp", "--recursive", "a", "b"],
        ["cp", "a", "b", "--exclude", "*", "--include", "*.txt"],
        ["cp", "--dryrun", "a*.txt", "b.log", "c"],
        ["cp", "a*.gz", "-", "--exclude", "x"],
        ["cat", "--range", "0-3", "a"],
        ["ls", "a", "--human-readable", "--summarize", "--recursive"],
        ["rm", "-r", "a", "--older-than", "7d"],
        ["aws", "s3", "cp", "--recursive", "a", "b"],
        ["s5cmd", "cp", "-n", "a", "b"],
        ["--unknown", "cp", "a", "b"],
    ],
)
def test_our_own_words_stay(arguments: list[str]) -> None:
    assert translate(arguments) == arguments


@pytest.mark.parametrize(
    ("typed", "guess"),
    [
        ("--acls", "--acl"),
        ("--retrys", None),
        ("--backup-directory", None),
        ("--exlude", "--exclude"),
        ("--part-sise", "--part-size"),
    ],
)
def test_only_a_likely_misspelling_is_guessed(
    typed: str, guess: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cp", typed, "x", "a", "b"]) == 2

    said = capsys.readouterr().err
    assert f"No such option: {typed}" in said
    assert ("Possible options" in said) == (guess is not None)
    assert guess is None or guess in said


@pytest.mark.parametrize(("typed", "guess"), [("lss", "ls"), ("cpy", "cp"), ("synch", "sync"), ("frobnicate", None)])
def test_only_a_likely_verb_is_guessed(typed: str, guess: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([typed]) == 2

    said = capsys.readouterr().err
    assert said.count("'") == (4 if guess else 2), said
    assert guess is None or f"Did you mean '{guess}'? See" in said


@pytest.mark.parametrize("verb", ["", "cp", "rm", "mount"])
def test_help_names_the_page_of_foreign_commands(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*verb.split(), "--help"]) == 0

    assert "docs/use/coming-from.md" in capsys.readouterr().out
