"""Removals and moves: what is removed, what is left, and what is on record of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from control import counters_fit_rows, until_ended
from ended import add_ended_batch
from ferry import Ferry
from mirror import keys

from seqferry.model.backoff import Backoff
from seqferry.model.errors import ConflictError
from seqferry.model.models import OPERATION_MOVE, TransferSpec
from seqferry.planning.removals import build_remove_spec
from seqferry.service import control
from seqferry.service.service import Service
from seqferry.spec.build import build_spec
from seqferry.spec.run import ListedCommand, build_run_spec
from seqferry.spec.validation import validate_spec
from seqferry.workflows.worker import Worker
from support.proxy import Proxy, reset
from support.servers import S3Server

SIZES = {"run/a": 10, "run/b/c": 20, "run/empty": 0, "run42/other": 30}


def _left(ferry: Ferry, prefix: str = "") -> list[str]:
    return sorted(keys(ferry.server, ferry.source, prefix))


def test_what_lies_below_a_prefix_is_removed_and_each_object_is_on_record(ferry: Ferry) -> None:
    ferry.fill(SIZES)
    spec = build_remove_spec([f"s3://{ferry.source}/run"], recursive=True, endpoint_url=ferry.server.endpoint_url)
    transfer_id = ferry.service.submit(spec, actor="ada")
    ferry.work()

    status = ferry.until_ended(transfer_id)

    assert (status.state, status.totals.done, status.totals.failed) == ("done", 3, 0)
    assert _left(ferry) == ["run42/other"]
    rows = ferry.service.objects(transfer_id)
    assert {(row.source_key, row.method, row.state) for row in rows} == {
        (name, "remove", "done") for name in ("run/a", "run/b/c", "run/empty")
    }
    counters_fit_rows(ferry.service, transfer_id)


def test_more_than_is_allowed_removes_nothing(ferry: Ferry) -> None:
    ferry.fill({f"run/{number}": 1 for number in range(5)})
    uri = f"s3://{ferry.source}/run/"
    spec = build_remove_spec([uri], recursive=True, most=4, endpoint_url=ferry.server.endpoint_url)
    transfer_id = ferry.service.submit(spec, actor="ada")
    ferry.work()

    status = ferry.until_ended(transfer_id)

    assert (status.state, status.error_code) == ("failed", "TooManyToDelete")
    assert len(_left(ferry)) == 5


@pytest.mark.parametrize("expected", [4, 6])
def test_another_number_than_was_seen_removes_nothing(ferry: Ferry, expected: int) -> None:
    ferry.fill({f"run/{number}": 1 for number in range(5)})

    status = ferry.until_ended(_removal_of(ferry, expected))

    assert (status.state, status.error_code) == ("failed", "AnotherNumber")
    assert f"5 objects at s3://{ferry.source}/run/" in (status.error_message or "")
    assert len(_left(ferry)) == 5


def test_a_removal_that_goes_on_does_not_count_what_it_has_removed(ferry: Ferry) -> None:
    ferry.fill({f"run/{number}": 1 for number in range(1, 3)})  # of three, run/0 was removed before the kill
    uri = f"s3://{ferry.source}/run/"
    spec = build_remove_spec([uri], recursive=True, expected=3, endpoint_url=ferry.server.endpoint_url)
    transfer_id = ferry.service.submit(spec, actor="ada")
    add_ended_batch(ferry.service, transfer_id, ["run/0"])
    ferry.work()

    status = ferry.until_ended(transfer_id)

    assert (status.state, status.totals.done) == ("done", 3)
    assert _left(ferry) == []


def test_a_removal_that_is_planned_again_takes_no_more_than_was_seen(ferry: Ferry) -> None:
    ferry.fill({f"run/{number}": 1 for number in range(1, 5)})  # run/0 was removed before; run/3 and run/4 are new
    uri = f"s3://{ferry.source}/run/"
    spec = build_remove_spec([uri], recursive=True, expected=3, endpoint_url=ferry.server.endpoint_url)
    transfer_id = ferry.service.submit(spec, actor="ada")
    add_ended_batch(ferry.service, transfer_id, ["run/0"])
    ferry.work()

    status = ferry.until_ended(transfer_id)

    assert (status.state, status.error_code) == ("failed", "AnotherNumber")
    assert "More than the 3 objects that were expected" in (status.error_message or "")
    assert len(_left(ferry)) >= 2
    with pytest.raises(ConflictError, match="run rm with the number that is there"):
        control.retry(ferry.service, transfer_id, actor="ada")


def _removal_of(ferry: Ferry, expected: int) -> str:
    uri = f"s3://{ferry.source}/run/"
    spec = build_remove_spec([uri], recursive=True, expected=expected, endpoint_url=ferry.server.endpoint_url)
    transfer_id = ferry.service.submit(spec, actor="ada")
    ferry.work()
    return transfer_id


def test_all_versions_are_removed_for_good(
    service: Service, versitygw: S3Server, make_bucket: Callable[..., str], start_worker: Callable[[Service], Worker]
) -> None:
    bucket = make_bucket(versitygw, versioned=True)
    client = versitygw.client()
    for body in (b"1", b"22", b"333"):
        client.put_object(Bucket=bucket, Key="run/a", Body=body)
    client.put_object(Bucket=bucket, Key="run/ab", Body=b"other")
    client.delete_object(Bucket=bucket, Key="run/a")
    spec = build_remove_spec([f"s3://{bucket}/run/a"], versions=True, endpoint_url=versitygw.endpoint_url)
    transfer_id = service.submit(spec, actor="ada")
    start_worker(service)

    status = until_ended(service, transfer_id)

    assert (status.state, status.totals.done, status.totals.failed) == ("done", 4, 0)
    found = client.list_object_versions(Bucket=bucket)
    assert [one["Key"] for one in found.get("Versions", [])] == ["run/ab"]
    assert "DeleteMarkers" not in found


def _move_spec(ferry: Ferry, source: str, target: str) -> TransferSpec:
    spec = build_spec(source, target, endpoint_url=ferry.server.endpoint_url, allow_local=True)
    return validate_spec(replace(spec, operation=OPERATION_MOVE))


def _move(ferry: Ferry, source: str, target: str) -> str:
    return ferry.service.submit(_move_spec(ferry, source, target), actor="ada")


def test_what_has_arrived_is_removed_at_the_source(ferry: Ferry) -> None:
    ferry.fill(SIZES)
    sent = ferry.sent()
    transfer_id = _move(ferry, f"s3://{ferry.source}/run/", f"s3://{ferry.target}/in/")
    ferry.work()

    status = ferry.until_ended(transfer_id)

    assert (status.state, status.totals.done, status.totals.failed) == ("done", 3, 0)
    assert ferry.arrived() == sent
    assert _left(ferry) == ["run42/other"]
    assert ferry.service.count_moved(transfer_id) == 3
    [event] = [one for one in ferry.service.events(transfer_id) if one.kind == "removing_sources"]
    assert sorted(event.data["keys"]) == ["run/a", "run/b/c", "run/empty"]


@pytest.mark.every_server
def test_what_was_written_after_it_was_copied_stays_at_the_source(
    ferry: Ferry, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seqferry.workflows.operations.move import sources

    ferry.fill({"run/a": 10, "run/b": 10})
    whole = sources._remove_page

    def write_first(*arguments: object) -> dict[str, str]:
        ferry.server.client().put_object(Bucket=ferry.source, Key="run/a", Body=b"newer")
        return whole(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(sources, "_remove_page", write_first)
    transfer_id = _move(ferry, f"s3://{ferry.source}/run/", f"s3://{ferry.target}/in/")
    ferry.work()

    status = ferry.until_ended(transfer_id)

    assert (status.state, status.error_code) == ("failed", "SourcesLeft")
    assert "run/a: it was written to after it was copied" in (status.error_message or "")
    assert _left(ferry) == ["run/a"]
    assert ferry.service.count_moved(transfer_id) == 1


@pytest.mark.parametrize("place", ["target", "source"])
def test_a_move_outlasts_a_storage_that_is_away_while_it_looks_at_its_copies(
    ferry: Ferry, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    from seqferry.workflows import runtime
    from seqferry.workflows.operations.move import sources

    ferry.fill({"run/a": 10, "run/b": 10})
    monkeypatch.setattr(runtime, "_BACKOFF", Backoff(0.01, 0.01))
    whole = sources._remove_page
    bucket = {"source": ferry.source, "target": ferry.target}[place]

    def refuse_first(*arguments: object) -> dict[int, str]:
        proxy.rule("HeadObject", reset(), bucket=bucket, times=12)
        return whole(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(sources, "_remove_page", refuse_first)
    spec = build_spec(f"s3://{ferry.source}/run/", f"s3://{ferry.target}/in/", endpoint_url=proxy.server.endpoint_url)
    transfer_id = ferry.service.submit(validate_spec(replace(spec, operation=OPERATION_MOVE)), actor="ada")
    ferry.work()

    status = ferry.until_ended(transfer_id)

    assert (status.state, status.error_message) == ("done", None)
    assert _left(ferry) == []


def _overwritten(path: Path) -> None:
    path.write_bytes(b"0123456789 and more")


def _overwritten_unseen(path: Path) -> None:
    """The same size, time and inode, and other bytes."""
    before = path.stat()
    path.write_bytes(bytes(before.st_size))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(bytes(path.stat().st_size))
    other.rename(path)


def _linked(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


def _became_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _touched(path: Path) -> None:
    path.touch()


def _restored(path: Path) -> None:
    """From a backup: the same bytes under another inode."""
    body = path.read_bytes()
    path.unlink()
    path.write_bytes(body)


def _before_removal(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen between the last copy and the removal of the sources, as after a kill."""
    from seqferry.workflows.operations.move import sources

    whole = sources.remove

    def act_first(*arguments: Any, **named: Any) -> None:
        act()
        whole(*arguments, **named)

    monkeypatch.setattr(sources, "remove", act_first)


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)  # local files need it
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_overwritten, "its copy has 19 bytes by now, and 10 were recorded"),
        (_overwritten_unseen, "its copy was overwritten"),
        (_replaced, "its copy was overwritten"),
        (_linked, "its copy"),
        (_became_folder, "its copy"),
        (Path.unlink, "its copy is not there any more"),
    ],
)
@pytest.mark.parametrize("command", ["mv", "run"])
def test_a_source_stays_whose_copy_on_a_disk_is_not_the_recorded_one(
    ferry: Ferry,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
    spoil: Callable[[Path], None],
    why: str,
) -> None:
    ferry.fill({"run/a": 10, "run/b": 10})
    _before_removal(monkeypatch, lambda: spoil(tmp_path / "to/a"))
    if command == "mv":
        transfer_id = _move(ferry, f"s3://{ferry.source}/run/", str(tmp_path / "to"))
    else:
        lines = [
            ListedCommand(number, _move_spec(ferry, f"s3://{ferry.source}/run/{name}", str(tmp_path / "to" / name)))
            for number, name in enumerate("ab", 1)
        ]
        transfer_id = ferry.service.submit(build_run_spec(lines, "list"), actor="ada")
    ferry.work()

    status = ferry.until_ended(transfer_id)

    assert (status.state, status.error_code) == ("failed", "SourcesLeft"), status
    assert why in (status.error_message or "")
    assert _left(ferry) == ["run/a"]


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)
@pytest.mark.parametrize("act", [_touched, _restored])
def test_a_source_is_removed_whose_copy_has_other_times_and_the_recorded_bytes(
    ferry: Ferry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, act: Callable[[Path], None]
) -> None:
    ferry.fill({"run/a": 10, "run/d/": 0, "run/d/b": 9 * 1024 * 1024})
    _before_removal(monkeypatch, lambda: [act(tmp_path / "to" / name) for name in ("a", "d/b")])
    transfer_id = _move(ferry, f"s3://{ferry.source}/run/", str(tmp_path / "to"))
    ferry.work()

    status = ferry.until_ended(transfer_id)

    assert status.state == "done", status
    assert _left(ferry) == []


@pytest.mark.every_server
def test_a_source_stays_whose_copy_in_a_bucket_was_overwritten(ferry: Ferry, monkeypatch: pytest.MonkeyPatch) -> None:
    ferry.fill({"run/a": 10, "run/b": 10})
    client = ferry.server.client()
    _before_removal(monkeypatch, lambda: client.put_object(Bucket=ferry.target, Key="in/a", Body=b"0123456789"))
    transfer_id = _move(ferry, f"s3://{ferry.source}/run/", f"s3://{ferry.target}/in/")
    ferry.work()

    status = ferry.until_ended(transfer_id)

    assert (status.state, status.error_code) == ("failed", "SourcesLeft")
    assert "run/a: its copy was overwritten" in (status.error_message or "")
    assert _left(ferry) == ["run/a"]


def test_an_object_under_two_addresses_is_not_moved_onto_itself(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill({"run/a": 10})
    here, other = ferry.server.endpoint_url, proxy.server.endpoint_url
    uri = f"s3://{ferry.source}/run/"
    spec = build_spec(uri, uri, source_endpoint_url=here, target_endpoint_url=other)
    transfer_id = ferry.service.submit(validate_spec(replace(spec, operation=OPERATION_MOVE)), actor="ada")
    ferry.work()

    status = ferry.until_ended(transfer_id)

    assert (status.state, status.error_code) == ("failed", "SourcesLeft")
    assert _left(ferry) == ["run/a"]


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)  # local files need it
@pytest.mark.parametrize("way", ["up", "down", "between"])
@pytest.mark.parametrize("is_listed", [False, True], ids=["mv", "run"])
def test_a_source_stays_whose_size_alone_was_compared(ferry: Ferry, tmp_path: Path, way: str, is_listed: bool) -> None:
    """An object that was there with the same size and other bytes is skipped: its source is the only one with them."""
    source = {"other": b"xyz", "longer": b"abcdef", "new": b"new", "empty": b""}
    there = {"other": b"abc", "longer": b"abc", "empty": b""}
    from_ = str(tmp_path / "from") if way == "up" else f"s3://{ferry.source}/from"
    to = str(tmp_path / "to") if way == "down" else f"s3://{ferry.target}/to"
    for place, content in ((from_, source), (to, there)):
        for name, body in content.items():
            if place.startswith("s3://"):
                bucket = place.split("/")[2]
                ferry.server.client(ferry.server.user).put_object(
                    Bucket=bucket, Key=f"{place.rpartition('/')[2]}/{name}", Body=body
                )
            else:
                Path(place).mkdir(exist_ok=True)
                (Path(place) / name).write_bytes(body)
    ferry.work()

    spec = _move_spec(ferry, f"{from_}/", f"{to}/").with_options(if_exists="size")
    if is_listed:
        spec = build_run_spec([ListedCommand(1, spec)], "list")
    status = ferry.until_ended(ferry.service.submit(spec, actor="ada"))

    assert (status.state, status.totals.failed) == ("done", 0), status
    left = [path.name for path in (tmp_path / "from").iterdir()] if way == "up" else _left(ferry, "from/")
    assert [name.removeprefix("from/") for name in left] == ["other"]


@pytest.mark.every_server
@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)  # local files need it
@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize("size", [1000, 9 << 20])  # in one request, and in parts
@pytest.mark.parametrize("is_listed", [False, True])
def test_other_bytes_with_the_size_and_time_of_the_target_are_moved(
    ferry: Ferry, tmp_path: Path, way: str, size: int, is_listed: bool
) -> None:
    (tmp_path / "files").mkdir()
    ours = [tmp_path / "files" / name for name in ("other", "same")]
    remote = f"s3://{ferry.target}/"
    for path in ours:
        path.write_bytes(b"a" * size)
        os.utime(path, (1_600_000_000, 1_600_000_000))
    ferry.work()
    up = build_spec(f"{tmp_path}/files/", remote, endpoint_url=ferry.server.endpoint_url, allow_local=True)
    assert ferry.until_ended(ferry.service.submit(up, actor="ada")).state == "done"
    # As cp -p and rsync -a do: other bytes with the size and the time of before.
    ours[0].write_bytes(b"b" * size)
    os.utime(ours[0], (1_600_000_000, 1_600_000_000))

    from_, to = (f"{tmp_path}/files/", remote) if way == "up" else (remote, f"{tmp_path}/files/")
    spec = _move_spec(ferry, from_, to)
    if is_listed:
        spec = build_run_spec([ListedCommand(1, spec)], "list")
    status = ferry.until_ended(ferry.service.submit(spec, actor="ada"))

    assert status.state == "done"
    client = ferry.server.client(ferry.server.user)
    if way == "up":
        assert [path.exists() for path in ours] == [False, False]
        assert client.get_object(Bucket=ferry.target, Key="other")["Body"].read() == b"b" * size
    else:
        assert list(keys(ferry.server, ferry.target)) == []
        assert ours[0].read_bytes() == b"a" * size


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)  # local files need it
def test_files_move_to_a_bucket_and_back(ferry: Ferry, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "d").mkdir(parents=True)
    (folder / "a").write_bytes(b"first")
    (folder / "d/b").write_bytes(b"second")
    ferry.work()

    up = ferry.until_ended(_move(ferry, str(folder), f"s3://{ferry.target}/in/"))

    assert up.state == "done", up
    assert sorted(ferry.arrived()) == ["a", "d/b"]
    assert [one.name for one in folder.rglob("*") if one.is_file()] == []

    back = ferry.until_ended(_move(ferry, f"s3://{ferry.target}/in/", str(tmp_path / "back")))

    assert back.state == "done", back
    assert (tmp_path / "back/d/b").read_bytes() == b"second"
    assert ferry.arrived() == {}
