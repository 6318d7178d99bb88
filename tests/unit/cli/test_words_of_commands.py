"""Words of commands: rules in their order, several sources, addresses of metrics, lifetimes, and listings."""

from __future__ import annotations

import base64
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqferry.cli import bulk_control, exits, listings, metrics_address, spec_arguments
from seqferry.cli.commands import head, ls, presign, report, workers
from seqferry.model.errors import ConfigError, UsageError
from seqferry.model.workers import WAITING, Activity, Process, ProcessStatus


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], []),
        (["cp", "a", "b"], ["cp", "a", "b"]),
        (["--exclude", "*", "--include=*.bam"], ["--rule=- *", "--rule=+ *.bam"]),
        (["--include=", "a"], ["--rule=+ ", "a"]),
        (["--exclude", "--include"], ["--rule=- --include"]),
        (["a", "--exclude"], ["a", "--exclude"]),
        (["--exclude-from", "x"], ["--exclude-from", "x"]),
        (["--", "--exclude", "x"], ["--", "--exclude", "x"]),
    ],
)
def test_includes_and_excludes_keep_their_order(words: list[str], found: list[str]) -> None:
    assert spec_arguments.with_rules(words) == found


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        (["s3://b/run/a", "s3://b/run/c d"], ("s3://b/run/", ["a", "c d"])),
        (["s3://b/a", "s3://b/c"], ("s3://b/", ["a", "c"])),
        (["x", "y"], ("./", ["x", "y"])),
        (["d/x", "d/y"], ("d/", ["x", "y"])),
    ],
)
def test_several_sources_are_names_in_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: list[str], found: Any
) -> None:
    (tmp_path / "d").mkdir()
    for name in ("x", "y", "d/x", "d/y"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)

    assert spec_arguments._names_in_folder(sources) == found


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        (["s3://b/run/a", "s3://b/other/c"], "one folder or prefix"),
        (["s3://b/a", "a"], "one folder or prefix"),
        (["-", "a"], "one folder or prefix"),
        (["s3://b/a/", "s3://b/a/x"], "is a folder beside other sources"),
        (["d", "x"], "is a folder beside other sources"),
        (["x", "missing"], "There is no file 'missing'"),
    ],
)
def test_sources_that_are_not_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: list[str], said: str
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "x").write_text("")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UsageError, match=said):
        spec_arguments._names_in_folder(sources)


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("s3://b/run/", ("s3://b/run/", None)),
        ("s3://b", ("s3://b", None)),
        ("s3://b/run/*.bam", ("s3://b/run/", "run/*.bam")),
        ("s3://b/a?", ("s3://b/a", "a?")),
        ("s3://b/*", ("s3://b/", "*")),
    ],
)
def test_an_address_with_a_wildcard_is_listed_up_to_it(place: str, found: tuple[str, str | None]) -> None:
    assert listings.split_wildcard(place) == found


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        (None, ["run/a.bam", "run/b.bai", "x.bam"]),
        ("*.bam", ["run/a.bam", "x.bam"]),
        ("run/*", ["run/a.bam", "run/b.bai"]),
        ("run", []),
    ],
)
def test_listed_objects_match_by_their_key(pattern: str | None, keys: list[str]) -> None:
    entries: Any = [SimpleNamespace(key=key, size=1, last_modified=0.0) for key in ("run/a.bam", "run/b.bai", "x.bam")]

    assert [one.key for one in listings.matching_entries(entries, pattern)] == keys


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=12), st.integers(1, 15))
def test_a_listing_is_in_the_order_of_bytes_as_far_as_it_is_held(names: list[str], most: int) -> None:
    entries: list[Any] = [name if nth % 2 else SimpleNamespace(key=name) for nth, name in enumerate(names)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ls, "_SORTED_AT_MOST", most)
        found = [one if isinstance(one, str) else one.key for one in ls._in_order(entries)]

    assert found == [*sorted(names[:most], key=str.encode), *names[most:]]


@pytest.mark.parametrize(
    "written", ["", "9464", ":9464", "host:", "host:x", "host:0", "host:65536", "host:000001", "host:-1", "host:²"]
)
def test_an_address_of_metrics_that_is_none_is_refused(written: str) -> None:
    with pytest.raises(UsageError, match=r"^--metrics: .* is not an address"):
        metrics_address.parse_address(written, "--metrics")


def test_an_address_that_another_process_listens_at_is_told_before_anything_begins() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(ConfigError, match=f"Cannot serve metrics on 127.0.0.1:{port}: .*Choose another --metrics"):
            metrics_address.parse_address(f"127.0.0.1:{port}", "--metrics")

    assert metrics_address.parse_address(f"127.0.0.1:{port}", "--metrics") == ("127.0.0.1", port)


@pytest.mark.parametrize(
    ("written", "seconds"), [("1", 1), ("90m", 5400), (" 12H ", 43_200), ("7d", 604_800), ("604800", 604_800)]
)
def test_a_lifetime_of_an_address_is_read(written: str, seconds: int) -> None:
    assert presign._seconds(written) == seconds


@pytest.mark.parametrize(
    "written", ["", "0", "-1", "1.5h", "8d", "604801", "1y", "h", pytest.param("9" * 5000, id="digits")]
)
def test_a_lifetime_that_s3_does_not_allow_is_refused(written: str) -> None:
    with pytest.raises(UsageError, match="S3 allows up to 7 days"):
        presign._seconds(written)


@pytest.mark.parametrize(
    ("stored", "digest"),
    [
        (base64.b64encode(bytes(range(16))).decode(), bytes(range(16)).hex()),
        (base64.b64encode(bytes(15)).decode(), None),
        ("000102030405060708090a0b0c0d0e0f", None),
        ("!", None),
        ("", None),
    ],
)
def test_a_stored_md5_is_shown_in_hexadecimal_digits(stored: str, digest: str | None) -> None:
    found: Any = SimpleNamespace(metadata=[("md5chksum", stored)])

    assert head._stored_md5(found) == digest
    assert head._stored_md5(SimpleNamespace(metadata=[])) is None


@given(st.text())
def test_a_report_can_be_written_whatever_names_are_in_it(text: str) -> None:
    written = report._encode(text).decode("utf-8")

    assert written == "".join(f"\\u{ord(one):04x}" if "\ud800" <= one <= "\udfff" else one for one in text)


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([], exits.NOTHING),
        ([None], exits.OK),
        ([None, UsageError("no")], exits.FAILED),
        ([UsageError("no")], exits.FAILED),
    ],
)
def test_the_exit_code_of_many_tells_whether_one_failed(results: list[Any], code: int) -> None:
    assert bulk_control.exit_code([SimpleNamespace(error=error) for error in results]) == code


_NOTHING = {"dirty_files": 0, "dirty_bytes": 0, "failing_files": 0, "conflicts": 0, "oldest_dirty_seconds": None}


@pytest.mark.parametrize(
    ("waits", "lines"),
    [
        (_NOTHING, []),
        (
            _NOTHING | {"dirty_files": 1, "dirty_bytes": 1536, "oldest_dirty_seconds": 65.0},
            ["gw /runs: 1 file to upload, 1.5 KiB, the oldest for 1 min 05 s"],
        ),
        (_NOTHING | {"failing_files": 2}, ["gw /runs: 0 files to upload, 0 B, 2 failing"]),
        (_NOTHING | {"conflicts": 1}, ["gw /runs: 0 files to upload, 0 B, 1 conflict"]),
    ],
)
def test_files_of_a_share_that_wait_are_told(waits: dict[str, Any], lines: list[str]) -> None:
    activity = Activity((), None, None, 0, 0, facts={WAITING: {"runs": waits}})
    process = Process("gw", "gateway", "host", 1, "1", "head", "1")

    assert list(workers._waiting(ProcessStatus(process, activity, 0.0, 0.0, alive=True))) == lines


@pytest.mark.parametrize(
    ("alive", "draining", "gone", "state"),
    [
        (True, False, False, "alive"),
        (True, True, False, "draining"),
        (False, True, False, "silent"),
        (False, False, False, "silent"),
        (False, True, True, "gone"),
    ],
)
def test_a_worker_that_gives_no_sign_is_silent_until_others_do_its_work(
    alive: bool, draining: bool, gone: bool, state: str
) -> None:
    process = Process("w", "worker", "host", 1, "1", "head", "1")
    activity = Activity((), None, None, 0, 0)

    assert ProcessStatus(process, activity, 0.0, 0.0, alive, draining, gone).state == state
