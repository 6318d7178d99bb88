"""What bad input gets: one line that names the thing, exit code 2, no traceback, nothing started."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from seqferry.cli import errors
from seqferry.cli.app import run
from seqferry.model.errors import SeqferryError, StorageError


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("cp", "not-a-uri", "s3://b/"), "not-a-uri"),
        (("cp", "s3:///key", "s3://b/"), "s3:///key"),
        (("cp", "s3://b/x/", "s3://b/x/"), "s3://b/x/"),
        (("cp", "s3://b/x/", "s3://b/x/y/"), "s3://b/x/y/"),
        (("cp", "./here", "./there"), "./there"),
        (("cp", "-", "s3://a/x/"), "name its key"),
        (("cp", "-", "-"), "'-'"),
        (("cp", "s3://a/x", "-", "--detach"), "--detach"),
        (("sync", "-", "s3://a/x"), "sync"),
        (("cp", "s3://a/x/", "/dev/null"), "/dev/null"),
        (("cp", "s3://a/x/", "./here", "--symlinks", "chase"), "chase"),
        (("cp", "s3://a/x/", "s3://b/", "--md5"), "--md5"),
        (("sync", "s3://a/x/", "./here", "--md5"), "--md5"),
        (("cp", "s3://a/x", "-", "--md5"), "--md5"),
        (("cp", "-", "s3://a/x", "--md5"), "--md5"),
        (("cp", "-", "s3://a/x", "--verify", "content"), "--verify content"),
        (("cp", "s3://a/x/"), "DST"),
        (("cp", "s3://a/", "s3://b/", "--part-size", "much"), "much"),
        (("cp", "s3://a/", "s3://b/", "--part-size", "1KiB"), "1024"),
        (("cp", "s3://a/", "s3://b/", "--if-exists", "maybe"), "maybe"),
        (("cp", "s3://a/", "s3://b/", "--max-requests", "0"), "--max-requests"),
        (("cp", "s3://a/", "s3://b/", "--max-requests", "9" * 23), "--max-requests"),
        (("cp", "s3://a/", "s3://b/", "--max-bandwidth", "abc"), "--max-bandwidth"),
        (("cp", "s3://a/", "s3://b/", "--max-bandwidth", "99999999999999T"), "--max-bandwidth"),
        (("cp", "s3://a/", "s3://b/", "--access-key", "x"), "--access-key"),
        (("cp", "s3://a/", "s3://b/", "--endpoint-url", "nowhere"), "nowhere"),
        (("cp", "s3://a/", "s3://b/", "--dry-run", "--price", "mars-1"), "mars-1"),
        (("pack", "s3://a/", "s3://b/x.tar", "--dry-run", "--price", "mars-1"), "mars-1"),
        (("ls", "bucket"), "bucket"),
        (("status", "--failed"), "--failed"),
        (("unpack", "--include", "reads/*", "--exclude", "*.bai", "./x.tar"), "DST"),
        (("fly",), "fly"),
        (("cp", "s3:b/x/", "s3://c/"), "s3://b/x/"),
        (("cp", "file:///etc/hosts", "s3://c/"), "without file://"),
        (("cp", "/etc/hosts", "s3://b/x", "s3://c/"), "one command for each"),
        (("cp", "missing.bam", "other.bam", "s3://c/"), "write s3://bucket/key"),
        (("cp", "s3://b/x/", "s3://c/", "--dry-rnu"), "--dry-run"),
        (("cp", "s3://b/x/", "s3://c/", "--checksum-algorithm", "crc32"), "'crc32' is not one of"),
        (("cp", "s3://b/x/", "s3://c/", "--sse-kms-key-id", "k"), "--sse aws:kms"),
        (("--no-sign-request=false", "cp", "s3://b/x/", "s3://c/"), "--no-sign-request"),
        *((("cp", "s3://b/x/", "s3://c/", "--tpslimit", wrong), "--tpslimit") for wrong in ("0", "100001", "many")),
        # One version of one object.
        (("cp", "s3://b/x/", "s3://c/", "--version-id", "v"), "that version of one object"),
        (("cp", "/etc/hosts", "s3://c/", "--version-id", "v"), "that version of one object"),
        (("cp", "s3://b/x", "s3://b/y", "s3://c/", "--version-id", "v"), "is for one object"),
        (("cp", "s3://b/x*", "-", "--version-id", "v"), "--version-id"),
        (("cat", "s3://b/x*", "--version-id", "v"), "--version-id"),
        (("cat", "s3://b/x", "s3://b/y", "--version-id", "v"), "one object"),
        (("head", "s3://b/x", "s3://b/y", "--version-id", "v"), "--version-id"),
        # Histories without holes.
        (("cp", "s3://b/x/", "s3://c/", "--all-versions", "--min-size", "1"), "whole histories"),
        (("cp", "s3://b/x/", "s3://c/", "--all-versions", "--if-exists", "skip"), "whole histories"),
        (("cp", "s3://b/x/", "s3://c/", "--all-versions", "--version-id", "v"), "that version of one object"),
        (("cp", "s3://b/x/", "s3://c/", "--all-versions", "--rename", "s/a/b/"), "no list or new names"),
        # What removes.
        (("rm", "s3://b/x/"), "--recursive"),
        (("rm", "/tmp/x"), "/tmp/x"),
        (("rb", "s3://b", "--expect", "3"), "--force"),
        (("mv", "s3://b/x/", "s3://b/x/"), "s3://b/x/"),
        (("mv", "s3://b/x/", "s3://b/x/inside/"), "s3://b/x/inside/"),
        # Names, roles and lives of tokens.
        *((("token", "add", wrong), wrong) for wrong in ("a b", "local", "env", "x" * 65)),
        (("token", "add", "x", "--role", "king"), "king"),
        (("token", "add", "x", "--expires", "soon"), "soon"),
        # Bytes of an object.
        (("cat", "s3://b/x", "--range", "3-1"), "--range 3-1 is not a range"),
        (("cat", "s3://b/x", "--range", "x"), "--range x is not a range"),
        (("cat", "s3://b/", "--range", "0-1"), "name a key"),
        (("presign", "s3://b"), "s3://b"),
        (("presign", "s3://b/x", "--expires-in", "8d"), "--expires-in 8d"),
    ],
)
def test_usage_errors_are_one_line_that_names_the_thing(
    arguments: tuple[str, ...], names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(list(arguments))

    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert err.startswith("seqferry: ")
    assert names in err


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SEQFERRY_MEMORY", "999999999999999999T"),
        ("SEQFERRY_MAX_BANDWIDTH", "abc"),
        ("SEQFERRY_MAX_REQUESTS", "many"),
        ("SEQFERRY_DATABASE_URL", "postgresql://ada:hunter2@127.0.0.1:abc/work"),
        ("SEQFERRY_DATABASE_URL", "postgresql://ada:hunter2@127.0.0.1:9/work?foo=bar"),
    ],
)
def test_a_variable_that_makes_no_sense_is_a_usage_error_too(
    variable: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)

    code = run(["resume", "0123456789", "--state-dir", str(tmp_path)])

    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1, err
    assert variable in err
    assert "hunter2" not in err


def test_an_error_is_an_event_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["cp", "s3://b/x/", "s3://b/x/", "--json"])

    out, err = capsys.readouterr()
    event = json.loads(out)
    assert code == event["exit_code"] == 2
    assert (event["event"], event["code"]) == ("error", "usage")
    assert len(err.splitlines()) == 1


def test_no_command_shows_the_help_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    code = run([])

    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert "Usage: seqferry" in err


NO_MEMORY = (
    "The system gives this process no more memory or threads. Raise its limits (ulimit -v, ulimit -u, the memory "
    "of the job or container), or lower --memory and --max-requests. Continue with seqferry resume."
)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (SeqferryError("It broke. Mend it."), 1, "seqferry: It broke. Mend it.\n"),
        (StorageError("two\nlines \x1b[31m"), 1, "seqferry: two\\nlines \\x1b[31m\n"),
        (
            ValueError("inner\nworkings"),
            1,
            "seqferry: unexpected ValueError: inner (set SEQFERRY_DEBUG=1 to see where)\n",
        ),
        (KeyboardInterrupt(), 130, "seqferry: interrupted\n"),
        (MemoryError(), 1, f"seqferry: {NO_MEMORY}\n"),
        (RuntimeError("can't start new thread"), 1, f"seqferry: {NO_MEMORY}\n"),
    ],
)
def test_every_error_is_one_line(
    error: BaseException,
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SEQFERRY_DEBUG", raising=False)

    assert errors.report_error(error, as_json=False) == code

    assert capsys.readouterr() == ("", said)


def test_debugging_shows_where(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQFERRY_DEBUG", "1")
    try:
        raise ValueError("inner workings")
    except ValueError as error:
        errors.report_error(error, as_json=False)

    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.endswith("seqferry: unexpected ValueError: inner workings\n")


def test_texts_and_lists_of_texts_are_parsed_without_pydantic(tmp_path: Path) -> None:
    """Its import takes longer than all else of the command line."""
    arguments = ["cp", f"{tmp_path}/nothing", "s3://b/", "--include", "*.bam", "--exclude", "x", "--region", "eu"]
    code = (
        "import sys\n"
        "from seqferry.cli.app import run\n"
        f"code = run({arguments!r})\n"
        "assert (code, 'pydantic' in sys.modules) == (2, False), code\n"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert "nothing" in ran.stderr


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ("[profile lab]\nregion = us-east-1\n", "it names no keys, role or login"),
        ("[profile lab]\naws_access_key_id = AK\n", "profile missing aws_secret_access_key"),
        ("[profile other]\nregion = us-east-1\n", "profile `lab` was not defined"),
    ],
)
@pytest.mark.parametrize("verb", ["ls", "head"])
def test_a_profile_without_keys_is_named_and_the_keys_of_the_environment_are_not_asked_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    section: str,
    why: str,
    verb: str,
) -> None:
    (tmp_path / "config").write_text(section)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))

    code = run([verb, "s3://bucket/key", "--profile", "lab", "--endpoint-url", "http://127.0.0.1:9"])

    said = capsys.readouterr().err
    assert code == 1, said
    assert 'profile "lab" gives no credentials' in said
    assert why in said
    assert "leave --profile out" in said
    assert "AWS_ACCESS_KEY_ID" not in said
    assert "not enabled" not in said
