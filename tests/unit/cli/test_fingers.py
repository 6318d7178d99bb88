"""Words of other tools: each documented, and none of ours changed by being translated."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqferry.cli.app import run
from seqferry.cli.fingers import ANSWERS, OPTIONS, VERBS, translate
from seqferry.model.errors import UsageError

PAGE = (Path(__file__).parents[3] / "docs/use/coming-from.md").read_text()


@pytest.mark.parametrize("word", [*OPTIONS, *ANSWERS, *VERBS])
def test_each_word_is_documented(word: str) -> None:
    assert f"`{word}" in PAGE or f" {word}`" in PAGE


@pytest.mark.parametrize("option", sorted(ANSWERS))
def test_what_has_no_equal_is_answered_by_name(option: str) -> None:
    with pytest.raises(UsageError, match=rf"^{option}: "):
        translate(["sync", option, "a", "b"])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--version"],
        ["cp", "--", "-r", "x"],
        ["cp", "--part-size", "64MiB", "a", "b"],
        ["status", "--json"],
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
