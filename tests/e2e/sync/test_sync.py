"""``sync``: the target comes to hold what the source holds, and loses only what it may lose."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from seqferry.service.service import Service
from seqferry.settings.config import Settings
from support.buckets import keys
from support.mover import Mover
from support.proxy import Proxy, access_denied, hold
from support.servers import S3Server
from support.trees import settle


@dataclass(frozen=True)
class Places:
    """Objects below ``run/`` in a source bucket, and a target bucket."""

    server: S3Server
    mover: Mover
    source: str
    target: str

    def put(self, bucket: str, *names: str) -> None:
        for name in names:
            self.server.client(self.server.user).put_object(Bucket=bucket, Key=name, Body=name.encode())

    def sync(self, *options: str) -> tuple[int, dict[str, object]]:
        code, summary, _ = self.mover.copy(f"s3://{self.source}/run", f"s3://{self.target}/in", *options, verb="sync")
        return code, summary

    def arrived(self) -> list[str]:
        return sorted(keys(self.server, self.target))


@pytest.fixture
def places(
    s3server: S3Server, proxy: Proxy, make_bucket: Callable[..., str], make_mover: Callable[[S3Server], Mover]
) -> Places:
    """Source: a, b, d/c. Target: b, d/old, old; and one beside what is kept in sync. Through ``proxy``."""
    made = Places(s3server, make_mover(proxy.server), make_bucket(s3server), make_bucket(s3server))
    made.put(made.source, "run/a", "run/b", "run/d/c")
    made.put(made.target, "in/b", "in/d/old", "in/old", "inner", "other/x")
    return made


def test_nothing_is_removed_unasked(places: Places) -> None:
    code, summary = places.sync()

    assert (code, summary["removed"], summary["objects"]) == (0, 0, 3)
    assert places.arrived() == ["in/a", "in/b", "in/d/c", "in/d/old", "in/old", "inner", "other/x"]


@pytest.mark.every_server
def test_what_the_source_has_not_is_removed_when_asked_for(places: Places) -> None:
    planned = places.mover.start(
        "sync", f"s3://{places.source}/run", f"s3://{places.target}/in", "--delete", "--dry-run"
    )
    assert planned.wait() == 0, str(planned)
    removed = [line for line in planned.stdout.splitlines() if line.startswith("(dry run) remove")]
    assert sorted(removed) == [f"(dry run) remove s3://{places.target}/in/{name}" for name in ("d/old", "old")]
    assert len(places.arrived()) == 5

    code, summary = places.sync("--delete", "--max-delete", "2")

    assert (code, summary["removed"]) == (0, 2)
    assert places.arrived() == ["in/a", "in/b", "in/d/c", "inner", "other/x"]
    code, summary = places.sync("--delete")
    assert (code, summary["removed"], summary["objects_skipped"]) == (0, 0, 3)


def test_nothing_is_removed_when_it_would_be_too_much(places: Places) -> None:
    code, summary = places.sync("--delete", "--max-delete", "1")

    assert (code, summary["state"], summary["error_code"]) == (1, "failed", "TooManyToDelete")
    assert places.arrived() == ["in/a", "in/b", "in/d/c", "in/d/old", "in/old", "inner", "other/x"]


def test_nothing_is_removed_when_not_all_has_arrived(places: Places, proxy: Proxy) -> None:
    proxy.rule([], access_denied(), key_is="in/a", bucket=places.target)

    code, summary = places.sync("--delete")

    assert (code, summary["objects_failed"], summary["removed"]) == (1, 1, 0)
    assert places.arrived() == ["in/b", "in/d/c", "in/d/old", "in/old", "inner", "other/x"]


def test_what_could_not_be_removed_is_not_counted_as_removed(places: Places, proxy: Proxy) -> None:
    proxy.rule("DeleteObject", access_denied(), key_is="in/old")

    code, summary = places.sync("--delete")

    assert (code, summary["error_code"], summary["removed"]) == (1, "AccessDenied", 1)
    assert places.arrived() == ["in/a", "in/b", "in/d/c", "in/old", "inner", "other/x"]


def test_what_the_storage_has_under_another_name_is_not_removed(
    versitygw: S3Server, seaweedfs: S3Server, make_bucket: Callable[..., str], make_mover: Callable[[S3Server], Mover]
) -> None:
    source, target = make_bucket(versitygw), make_bucket(seaweedfs)
    for key in ("run/back\\slash", "run/plain"):
        versitygw.client().put_object(Bucket=source, Key=key, Body=b"x")
    seaweedfs.client().put_object(Bucket=target, Key="in/old", Body=b"x")
    endpoints = ("--source-endpoint-url", versitygw.endpoint_url, "--target-endpoint-url", seaweedfs.endpoint_url)

    code, summary, err = make_mover(versitygw).copy(
        f"s3://{source}/run", f"s3://{target}/in", *endpoints, "--delete", verb="sync"
    )

    assert (code, summary["error_code"], summary["removed"]) == (1, "NamesChanged", 0), err
    assert sorted(keys(seaweedfs, target)) == ["in/back/slash", "in/old", "in/plain"]


def test_an_empty_source_empties_nothing(places: Places) -> None:
    for name in ("run/a", "run/b", "run/d/c"):
        places.server.client().delete_object(Bucket=places.source, Key=name)

    code, summary = places.sync("--delete")

    assert (code, summary["error_code"]) == (1, "EmptySource")
    assert len(places.arrived()) == 5


def test_a_worker_that_is_killed_while_it_removes_is_followed_by_one_that_removes_the_rest(
    places: Places, proxy: Proxy, rng: random.Random, tmp_path: Path
) -> None:
    held = proxy.rule("DeleteObject", hold(rng.choice(["request", "reply"])), after=1)
    running = places.mover.start("sync", f"s3://{places.source}/run", f"s3://{places.target}/in", "--delete")
    running.wait_for_output("transfer ")
    transfer_id = running.stderr.split()[1]
    proxy.wait_held(held)
    running.kill()
    proxy.remove_rule(held)

    with places.mover.start("resume", transfer_id) as last:
        assert last.wait() == 0, str(last)
        assert "removed   2 objects" in last.stderr

    assert places.arrived() == ["in/a", "in/b", "in/d/c", "inner", "other/x"]
    with Service.open(Settings.load(state_dir=places.mover.state)) as service:
        removing = [event.data["keys"] for event in service.events(transfer_id) if event.kind == "removing"]
        assert service.record_findings(transfer_id) == []
    assert {key for keys in removing for key in keys} == {"in/d/old", "in/old"}


def test_what_has_come_to_the_source_meanwhile_is_not_removed(places: Places, proxy: Proxy) -> None:
    held = proxy.rule("CopyObject", hold("request"), key_is="in/a")
    running = places.mover.start("sync", f"s3://{places.source}/run", f"s3://{places.target}/in", "--delete")
    proxy.wait_held(held)
    # Another writer brings an object to both sides after the source was listed.
    places.put(places.source, "run/late")
    places.put(places.target, "in/late")

    proxy.remove_rule(held)

    assert running.wait() == 0, str(running)
    assert places.arrived() == ["in/a", "in/b", "in/d/c", "in/late", "inner", "other/x"]


def test_a_dry_run_says_what_would_not_be_removed(places: Places) -> None:
    uris = (f"s3://{places.source}/run", f"s3://{places.target}/in")
    planned = places.mover.start("sync", *uris, "--delete", "--max-delete", "1", "--dry-run")
    assert planned.wait() == 1
    assert "More than 1 object" in planned.stderr

    planned = places.mover.start("sync", f"s3://{places.source}/nothing", uris[1], "--delete", "--dry-run")
    assert planned.wait() == 1
    assert "refused" in planned.stderr
    assert "(dry run) remove" not in planned.stdout

    # One that cannot arrive: its key would be too long at the target.
    places.put(places.source, "run/" + "long/" * 200 + "x")
    planned = places.mover.start("sync", uris[0], uris[1] + "/below/longer/and/longer", "--delete", "--dry-run")
    assert planned.wait() == 1
    assert "Nothing is removed when not all can arrive." in planned.stderr
    assert "long/long" in planned.stdout


@pytest.mark.every_server
def test_an_object_that_is_overwritten_in_the_second_of_its_download_is_noticed(places: Places, tmp_path: Path) -> None:
    for turn in range(2):
        for body in (b"version-1", b"version-2"):
            places.server.client(places.server.user).put_object(Bucket=places.source, Key=f"turn{turn}/k", Body=body)
            code, summary, err = places.mover.copy(
                f"s3://{places.source}/turn{turn}", str(tmp_path / f"turn{turn}"), verb="sync"
            )
            assert code == 0, f"{summary}\n{err}"
        assert (tmp_path / f"turn{turn}" / "k").read_bytes() == b"version-2"


@pytest.mark.parametrize(
    ("way", "spelling"),
    [("up", ("--size-only",)), ("down", ("--if-size-differ",)), ("between", ("--if-exists", "size"))],
)
def test_size_only_leaves_what_has_the_size(
    s3server: S3Server,
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    tmp_path: Path,
    way: str,
    spelling: tuple[str, ...],
) -> None:
    """As after disks have changed all times: equal, with other bytes of the size, of another size, and not there."""
    mover, target_bucket, source_bucket = make_mover(s3server), make_bucket(s3server), make_bucket(s3server)
    client = s3server.client(s3server.user)
    source = {"equal": b"abc", "other": b"xyz", "longer": b"abcdef", "new": b"new"}
    there = {"equal": b"abc", "other": b"abc", "longer": b"abc"}
    from_, to = (str(tmp_path / "run") if way == "up" else f"s3://{source_bucket}/run"), f"s3://{target_bucket}/in"
    if way == "down":
        to = str(tmp_path / "in")
    for place, content in ((from_, source), (to, there)):
        for name, body in content.items():
            if place.startswith("s3://"):
                bucket, _, prefix = place.removeprefix("s3://").partition("/")
                client.put_object(Bucket=bucket, Key=f"{prefix}/{name}", Body=body)
            else:
                (Path(place)).mkdir(exist_ok=True)
                (Path(place) / name).write_bytes(body)
                settle(Path(place) / name)

    code, summary, err = mover.copy(f"{from_}/", f"{to}/", *spelling, verb="sync")

    assert (code, summary["objects_skipped"], summary["objects"]) == (0, 2, 4), f"{summary}\n{err}"
    assert summary["verified"]["size"] == 2
    receipt = {one.source_key.rpartition("/")[2]: (one.state, one.verified) for one in mover.objects(summary["id"])}
    assert (receipt["equal"], receipt["other"]) == (("skipped", "size"), ("skipped", "size"))
    assert {receipt[name][0] for name in ("longer", "new")} == {"done"}
    found = (
        {path.name: path.read_bytes() for path in (tmp_path / "in").iterdir()}
        if way == "down"
        else {
            key.removeprefix("in/"): client.get_object(Bucket=target_bucket, Key=key)["Body"].read()
            for key in keys(s3server, target_bucket)
        }
    )
    assert found == {**source, "other": b"abc"}
