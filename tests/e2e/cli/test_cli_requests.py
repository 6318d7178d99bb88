"""How many requests a command makes, counted by the proxy: none twice, and none for what a listing shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from cli_process import Cli, Places

from support.proxy import Proxy, access_denied
from support.servers import S3Server
from support.sim import Simulator


@pytest.fixture
def proxied(cli: Cli, places: Places, make_proxy: Callable[[S3Server], Proxy]) -> Proxy:
    """The command reaches its places through a proxy that counts."""
    proxy = make_proxy(places.server)
    cli.server = proxy.server
    return proxy


def _counted(proxy: Proxy) -> Counter[str]:
    proxy.wait_idle()
    found = Counter(record.operation for record in proxy.log())
    proxy.clear_log()
    return found


def _distinct(proxy: Proxy) -> bool:
    """No request was made twice."""
    proxy.wait_idle()
    made = [(record.operation, record.method, record.path, record.range) for record in proxy.log()]
    return len(made) == len(set(made))


@pytest.mark.every_server
def test_a_small_object_is_copied_and_compared_with_few_requests(cli: Cli, places: Places, proxied: Proxy) -> None:
    places.fill(["a", "b"])
    command = ("cp", f"s3://{places.source}/run42/a", f"s3://{places.target}/archive/a")

    first = cli.run(*command)

    assert first.code == 0, first.err
    counted = _counted(proxied)
    assert counted.pop("GetBucketEncryption") == 1
    assert counted == {"HeadObject": 1, "ListObjectsV2": 1, "CopyObject": 1}
    assert places.content() == {"a": b"content of 'a'"}

    before = places.arrived()
    again = cli.run(*command)

    assert again.code == 0, again.err
    assert "skipped   1 object already there" in again.err
    assert _distinct(proxied)
    assert _counted(proxied) == {"HeadObject": 1, "ListObjectsV2": 1}
    assert places.arrived() == before

    places.s3.put_object(Bucket=places.source, Key="run42/a", Body=b"changed after that")
    assert cli.run(*command).code == 0
    assert places.content() == {"a": b"changed after that"}


def test_another_object_of_that_start_at_the_target_costs_one_look(cli: Cli, places: Places, proxied: Proxy) -> None:
    places.fill(["a"])
    places.s3.put_object(Bucket=places.target, Key="archive/a-longer-name", Body=b"other")

    ran = cli.run("cp", f"s3://{places.source}/run42/a", f"s3://{places.target}/archive/a")

    assert ran.code == 0, ran.err
    counted = _counted(proxied)
    assert counted.pop("GetBucketEncryption") == 1
    assert counted == {"HeadObject": 2, "ListObjectsV2": 1, "CopyObject": 1}
    assert places.content() == {"a": b"content of 'a'", "a-longer-name": b"other"}


def test_a_missing_object_or_bucket_is_still_named(cli: Cli, places: Places, proxied: Proxy) -> None:
    places.fill(["a"])

    missing = cli.run("cp", f"s3://{places.source}/run42", f"s3://{places.target}/archive/a")
    nowhere = cli.run("cp", f"s3://{places.source}/run42/a", "s3://no-such-bucket-here/a")

    assert (missing.code, nowhere.code) == (2, 1)
    assert f"did you mean s3://{places.source}/run42/" in missing.err
    assert "no-such-bucket-here" in nowhere.err


@pytest.mark.every_server
def test_identical_trees_are_compared_by_their_listings(cli: Cli, places: Places, proxied: Proxy) -> None:
    names = [f"lane{number % 3}/{number:03d}.fq" for number in range(150)]
    places.fill(names)
    assert cli.run("cp", *places.uris).code == 0
    before = places.arrived()
    assert len(before) == 150
    proxied.clear_log()

    ran = cli.run("cp", *places.uris, "--json")

    assert ran.code == 0, ran.err
    summary = ran.events[-1]
    assert (summary["objects_skipped"], summary["objects_done"], summary["verified"]) == (150, 0, {"etag": 150})
    counted = _counted(proxied)
    assert (counted["HeadObject"], counted["CopyObject"]) == (0, 0)
    assert counted == {"HeadBucket": 2, "ListObjectsV2": 3}
    assert places.arrived() == before


def test_only_what_differs_is_looked_up_and_copied(cli: Cli, places: Places, proxied: Proxy) -> None:
    places.fill([f"{number:03d}" for number in range(60)])
    assert cli.run("cp", *places.uris).code == 0
    places.s3.put_object(Bucket=places.source, Key="run42/007", Body=b"another content")
    places.s3.delete_object(Bucket=places.target, Key="archive/011")
    places.s3.put_object(Bucket=places.target, Key="archive/0075", Body=b"of somebody else")
    proxied.clear_log()

    ran = cli.run("cp", *places.uris, "--json")

    assert ran.code == 0, ran.err
    assert (ran.events[-1]["objects_skipped"], ran.events[-1]["objects_done"]) == (58, 2)
    counted = _counted(proxied)
    assert counted["CopyObject"] == 2
    assert counted["HeadObject"] <= 4
    content = places.content()
    assert content["007"] == b"another content"
    assert content["011"] == b"content of '011'"
    assert content["0075"] == b"of somebody else"


def test_what_must_be_proven_otherwise_is_not_skipped_by_its_listing(cli: Cli, places: Places, proxied: Proxy) -> None:
    places.fill(["a", "b"])
    assert cli.run("cp", *places.uris).code == 0
    proxied.clear_log()

    ran = cli.run("cp", *places.uris, "--verify", "content", "--json")

    assert ran.code == 0, ran.err
    assert ran.events[-1]["verified"] == {"content": 2}


def test_a_target_that_may_not_be_listed_is_looked_up(cli: Cli, places: Places, proxied: Proxy) -> None:
    places.fill(["a", "b"])
    assert cli.run("cp", *places.uris).code == 0
    proxied.clear_log()
    proxied.rule("ListObjectsV2", access_denied(), bucket=places.target)

    ran = cli.run("cp", *places.uris, "--json")

    assert ran.code == 0, ran.err
    assert ran.events[-1]["objects_skipped"] == 2
    assert _counted(proxied)["HeadObject"] == 2


@pytest.mark.every_server
def test_ls_of_a_prefix_asks_for_one_level(cli: Cli, places: Places, proxied: Proxy) -> None:
    places.fill(["a", *(f"deep/{number:04d}/x" for number in range(30)), "z/1"])

    ran = cli.run("ls", places.uris[0], "--json")

    assert ran.code == 0, ran.err
    assert [event.get("prefix") or event["key"] for event in ran.events] == ["run42/a", "run42/deep/", "run42/z/"]
    [record] = proxied.log()
    assert record.operation == "ListObjectsV2"


def test_ls_asks_once_for_each_thousand_entries(cli: Cli, make_simulator: Callable[..., Simulator]) -> None:
    simulator = make_simulator("--instant", "--bucket", "src=keys=run/{i:04}/R{1,2}.fq;count=5000;size=1 KiB")

    ran = cli.run("ls", "s3://src/run/", "--json", env=simulator.environment())

    assert ran.code == 0, ran.err
    assert len({event["prefix"] for event in ran.events}) == len(ran.events) == 2500
    made = {name: each["requests"] for name, each in simulator.stats()["operations"].items() if each["requests"]}
    assert made == {"ListObjectsV2": 3}


def test_thousands_of_identical_objects_take_a_few_listings(cli: Cli, make_simulator: Callable[..., Simulator]) -> None:
    count = 12_000
    source = f"src=keys=run/d{{i:04}}/f{{j:04}}.bin;count={count};size=1 KiB"
    simulator = make_simulator("--instant", "--bucket", source, "--bucket", "dst")
    uris = "s3://src/run/", "s3://dst/in/"
    assert cli.run("cp", *uris, env=simulator.environment()).code == 0
    simulator.reset()

    again = cli.run("sync", *uris, "--json", env=simulator.environment())

    assert again.code == 0, again.err
    assert again.events[-1]["verified"] == {"etag": count}
    made = {name: each["requests"] for name, each in simulator.stats()["operations"].items() if each["requests"]}
    assert made.keys() == {"HeadBucket", "ListObjectsV2"}
    # Both sides have 12 pages; runs of the parallel listing meet within pages.
    assert made["ListObjectsV2"] < 120
    levels = cli.run("ls", uris[0], "--json", env=simulator.environment())
    assert len(levels.events) == len({event["prefix"] for event in levels.events})


def test_a_dry_run_says_of_each_object_what_would_happen_and_why(cli: Cli, places: Places, proxied: Proxy) -> None:
    places.fill(["same", "other", "absent"])
    assert cli.run("cp", *places.uris).code == 0
    places.s3.delete_object(Bucket=places.target, Key="archive/absent")
    places.s3.put_object(Bucket=places.target, Key="archive/other", Body=b"longer than what is at the source")
    before = places.arrived()

    ran = cli.run("cp", *places.uris, "--dry-run", "--json")

    assert ran.code == 0, ran.err
    told = {one["source_key"]: (one["action"], one["because"]) for one in ran.events if one["event"] == "planned"}
    assert told == {
        "run42/same": ("skip", "equal ETags"),
        "run42/other": ("copy", "size differs"),
        "run42/absent": ("copy", "absent"),
    }
    [end] = [one for one in ran.events if one["event"] == "dry_run"]
    assert (end["objects"], end["skipped"]) == (2, 1)
    assert places.arrived() == before
    overwriting = cli.run("cp", *places.uris, "--dry-run", "--if-exists", "overwrite")
    assert overwriting.out.count("(it is overwritten)") == 2
    assert cli.run("cp", *places.uris, "--dry-run", "--if-exists", "fail").code == 1


def test_a_dry_run_over_identical_trees_costs_the_two_listings(cli: Cli, places: Places, proxied: Proxy) -> None:
    places.fill(["a", "b", "c"])
    assert cli.run("cp", *places.uris).code == 0
    _counted(proxied)

    ran = cli.run("cp", *places.uris, "--dry-run")

    assert ran.code == 0, ran.err
    assert ran.out.count("(dry run) skip") == 3
    counted = _counted(proxied)
    assert counted["ListObjectsV2"] <= 2 + counted["HeadBucket"]
    assert counted["HeadObject"] == counted["CopyObject"] == counted["GetObject"] == 0
