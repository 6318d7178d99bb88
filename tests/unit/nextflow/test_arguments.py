"""Command lines of other tools: no option is dropped, and none takes a word that is not its own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqferry.model.foreign_options import complete, options_of_tool
from seqferry.nextflow import arguments, aws, s5cmd, shim_listing
from seqferry.nextflow.arguments import RefusedError

_NAMES = ("--recursive", "--region", "--no-progress", "--include", "--exclude", "--sse", "--metadata", "--grants")
_OPTIONS = {
    **{name: options_of_tool("aws", "cp")[name] for name in (*_NAMES, "--storage-class", "--request-payer")},
    "--no-follow-symlinks": options_of_tool("aws", "cp")["--no-follow-symlinks"],
    "--page-size": options_of_tool("aws", "cp")["--page-size"],
    "--ca-bundle": arguments.refuse("name it elsewhere."),
}


@pytest.mark.parametrize(
    ("words", "operands", "options"),
    [
        ([], [], {}),
        (["a", "-", "b"], ["a", "-", "b"], {}),
        (["--region", "eu", "a"], ["a"], {"region": "eu"}),
        (["a", "--region=eu=x", "--recursive"], ["a"], {"region": "eu=x", "recursive": True}),
        (["--region=", "a"], ["a"], {"region": ""}),
        (["--region", "--recursive"], [], {"region": "--recursive"}),
        (["--no-progress", "a"], ["a"], {"no_progress": True}),
        (["--page-size", "10", "--no-follow-symlinks", "a"], ["a"], {"symlinks": "skip"}),
        (["--exclude", "*", "--include=*.bam"], [], {"rules": ["- *", "+ *.bam"]}),
        (["--metadata", "a=b", "--metadata", "c=d"], [], {"metadata": ["a=b", "c=d"]}),
        (["--storage-class", "GLACIER"], [], {"storage_class": "GLACIER"}),
        # A value that may be left out: a word that is no value is an operand.
        (["--sse", "a", "b"], ["a", "b"], {"sse": "AES256"}),
        (["--sse", "aws:kms", "b"], ["b"], {"sse": "aws:kms"}),
        (["--sse", "AES-256", "b"], ["b"], {"sse": "AES-256"}),
        (["--sse", "aes/x", "b"], ["aes/x", "b"], {"sse": "AES256"}),
        (["--sse", "./aws", "b"], ["./aws", "b"], {"sse": "AES256"}),
        (["--request-payer"], [], {"request_payer": "requester"}),
        # Several values follow one name.
        (
            ["--grants", "read=id=1", "full=uri=x", "a"],
            ["a"],
            {"grants": ["read=id=1", "full=uri=x"]},
        ),
    ],
)
def test_words_are_operands_options_and_their_values(
    words: list[str], operands: list[str], options: dict[str, Any]
) -> None:
    parsed = arguments.parse("tool", words, _OPTIONS)

    assert (parsed.operands, parsed.options) == (operands, options)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--acl", "x"], "Unknown options: --acl. tool knows --exclude"),
        (["-r"], "Unknown options: -r"),
        (["--", "a"], "Unknown options: --"),
        (["--ca-bundle", "x"], "cannot carry out --ca-bundle: name it elsewhere."),
        (["--region"], "--region: expected one argument"),
        (["--recursive=yes"], "--recursive takes no value"),
    ],
)
def test_what_is_not_understood_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        arguments.parse("tool", words, _OPTIONS)


@given(st.lists(st.sampled_from(["a", "-", "--x", "--sse", "AES256", "--", "--grants", "read=id=1", "b/c", ""])))
def test_no_word_is_lost_before_it_is_understood(words: list[str]) -> None:
    given_back = [part for word in complete(words) for part in word.split("=", 1)]

    assert len(given_back) >= len(words)
    assert set(words) - {"read=id=1"} <= set(given_back)


@pytest.mark.parametrize(("written", "file"), [("fileb://key", "key"), ("file:///etc/key", "/etc/key")])
def test_a_key_is_named_by_its_file(written: str, file: str) -> None:
    assert arguments.key_file("--sse-c-key", written) == file


@pytest.mark.parametrize("written", ["0123456789abcdef", "http://secret", "fileb:/secret", ""])
def test_a_key_on_the_command_line_is_refused_and_not_shown(written: str) -> None:
    with pytest.raises(RefusedError) as refused:
        arguments.key_file("--sse-c-key", written)

    assert not written or written not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "command", "operands"),
    [
        (["s3", "cp", "a", "b"], "cp", ["a", "b"]),
        (["--region", "eu", "s3", "cp", "a", "s3://b"], "cp", ["a", "s3://b"]),
        (["s3", "--profile", "s3", "ls", "s3://b"], "ls", ["s3://b"]),
        (["s3", "--profile=lab", "ls", "-"], "ls", ["-"]),
    ],
)
def test_service_and_command_are_the_first_words_that_are_no_options(
    words: list[str], command: str, operands: list[str]
) -> None:
    found, parsed = aws._command(words)

    assert (found, parsed.operands) == (command, operands)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no service"),
        (["ec2", "ls"], "invalid choice 'ec2'"),
        (["s3"], "no command"),
        (["s3", "sync", "a", "b"], "invalid choice 'sync'"),
        (["s3", "ls", "--only-show-errors"], "Unknown options: --only-show-errors"),
    ],
)
def test_services_and_commands_of_aws_that_are_not_there_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        aws._command(words)


@pytest.mark.parametrize(
    ("address", "is_prefix"),
    [("s3://b", True), ("s3://b/", True), ("s3://b/a/", True), ("s3://b/a", False), ("s3://b//", True)],
)
def test_an_address_without_a_key_or_with_a_last_slash_is_a_prefix(address: str, is_prefix: bool) -> None:
    assert aws._is_prefix(address) is is_prefix


@pytest.mark.parametrize(
    ("code", "operation", "text"),
    [
        ("404", "HeadObject", "An error occurred (404) when calling the HeadObject operation: no"),
        ("", "HeadObject", "no"),
        ("404", "", "no"),
    ],
)
def test_an_error_of_the_service_begins_as_that_of_the_aws_cli(code: str, operation: str, text: str) -> None:
    assert aws._service_error(code, operation, "no") == text


_TOP = "s3://b/in/"


@pytest.mark.parametrize(
    ("source", "target", "raw", "given"),
    [
        ("s3://b/k", "/tmp/k", False, {"source": "s3://b/k", "target": "/tmp/k", "below": False, "raw": True}),
        ("s3://b/*", "/tmp/", False, {"source": "s3://b/*", "target": "/tmp/", "below": False, "raw": False}),
        ("s3://b/*", "/tmp/", True, {"source": "s3://b/*", "target": "/tmp/", "below": False, "raw": True}),
        ("file", _TOP, False, {"source": "file", "target": _TOP, "below": False, "raw": True}),
        # As rsync: a folder without its last slash keeps its name.
        ("dir", _TOP, False, {"source": "dir", "target": f"{_TOP}dir/", "below": True, "raw": True}),
        ("dir", "s3://b", False, {"source": "dir", "target": "s3://b/dir/", "below": True, "raw": True}),
        ("dir/", _TOP, False, {"source": "dir/", "target": _TOP, "below": True, "raw": True}),
        (".", _TOP, False, {"source": ".", "target": _TOP, "below": True, "raw": True}),
        ("dir/*.b", _TOP, False, {"source": "dir/", "target": _TOP, "below": False, "raw": True, "keys": ["y.b"]}),
        ("*/x.a", _TOP, False, {"source": "./", "target": _TOP, "below": False, "raw": True, "keys": ["dir/x.a"]}),
    ],
)
def test_sources_of_s5cmd_select_by_wildcards(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, source: str, target: str, raw: bool, given: dict[str, Any]
) -> None:
    (tmp_path / "dir").mkdir()
    for name in ("file", "dir/x.a", "dir/y.b"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)

    assert s5cmd._sources(source, target, raw=raw) == given


@pytest.mark.parametrize(
    ("source", "target", "raw", "said"),
    [
        ("s3://b/k", "s3://b/*", False, "can not contain glob characters"),
        ("s3://b/*", "s3://b/k", False, "must be a bucket or a prefix"),
        ("s3://b/", "/tmp/", False, "must contain wildcard"),
        ("s3://b", "/tmp/", True, "must contain wildcard"),
        ("nothing*", "s3://b/", False, "no match found"),
    ],
)
def test_what_s5cmd_refuses_is_refused(source: str, target: str, raw: bool, said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        s5cmd._sources(source, target, raw=raw)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*", {"a", "b", "!", "^", "[x]", ".h"}),
        ("[ab]", {"a", "b"}),
        ("[^ab]", {"!", "^"}),
        # A backslash takes away any meaning, and ! is a character as others are.
        ("\\[x]", {"[x]"}),
        ("[!a]", {"!", "a"}),
    ],
)
def test_patterns_of_paths_are_those_of_go(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, pattern: str, names: set[str]
) -> None:
    for name in ("a", "b", "!", "^", "[x]", ".h"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)

    assert set(s5cmd._files(pattern)) == names


@given(st.text())
def test_a_line_of_a_listing_is_one_line(text: str) -> None:
    shown = shim_listing.printable(text)

    assert shown.isprintable()
    assert shown == text or not text.isprintable()


@pytest.mark.parametrize(
    ("key", "prefix", "recursive", "name"),
    [
        ("run/a", "run/", False, "a"),
        ("run/a", "ru", False, "run/a"),
        ("run/a", "run/", True, "run/a"),
        ("run/a\nb", "run/", False, "a\\nb"),
        ("run/\udcff", "", True, "run/\\udcff"),
    ],
)
def test_a_name_in_a_listing_is_what_follows_the_last_slash(key: str, prefix: str, recursive: bool, name: str) -> None:
    assert shim_listing.name_in_listing(key, prefix, recursive=recursive) == name
