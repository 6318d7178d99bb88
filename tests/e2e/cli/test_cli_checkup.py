"""``seqferry doctor`` and the preflight of a transfer, on real servers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_process import Cli, Places

from seqferry.doctor import file_system
from support.proxy import Proxy, access_denied
from support.servers import S3Server


@pytest.fixture
def proxy(cli: Cli, places: Places, make_proxy: Callable[[S3Server], Proxy]) -> Proxy:
    """The storage as the command reaches it."""
    made = make_proxy(places.server)
    cli.server = made.server
    return made


def test_doctor_finds_nothing_where_all_is_well(cli: Cli, places: Places) -> None:
    places.fill(["a"])

    ran = cli.run("doctor", *places.uris, "--json")

    found = {one["topic"]: one for one in ran.events}
    assert ran.code == 0, ran.out + ran.err
    assert {"versions", "state folder", "disk", "database", "open files", "memory", "credentials"} <= found.keys()
    assert found["endpoint"]["level"] == "ok", found["endpoint"]
    assert found["source: read"]["level"] == "ok"
    assert "access key" in found["credentials"]["text"]
    assert places.server.environment()["AWS_SECRET_ACCESS_KEY"] not in ran.out


def test_doctor_says_what_to_do_about_each_trouble(cli: Cli, places: Places, proxy: Proxy) -> None:
    places.fill(["a"])
    proxy.rule("HeadObject", access_denied())
    ids = cli.run("cp", *places.uris, "--detach").out.strip()
    assert ids

    ran = cli.run("doctor", places.uris[0], "s3://no-such-bucket-here/", "--json")

    found = {one["topic"]: one for one in ran.events}
    assert ran.code == 1
    assert all(one["advice"] for one in ran.events if one["level"] != "ok")
    assert found["source: read"]["level"] == "problem"
    assert "no-such-bucket-here" in found["target"]["text"]
    assert "seqferry worker" in found["worker"]["advice"]
    unreachable = cli.run("doctor", places.uris[0], "--endpoint-url", "http://127.0.0.1:9")
    assert (unreachable.code, "http://127.0.0.1:9" in unreachable.out) == (1, True)


def test_the_file_system_of_a_folder_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\nbad line\n")

    assert file_system(tmp_path / "state", str(mounts)) == "nfs4"
    assert file_system(Path("/elsewhere"), str(mounts)) == "ext4"
    assert file_system(tmp_path, str(tmp_path / "none")) is None


def test_a_preflight_groups_what_would_fail_by_cause_and_moves_nothing(cli: Cli, places: Places, proxy: Proxy) -> None:
    places.fill([f"lane{number:02d}" for number in range(12)])
    proxy.rule("HeadObject", access_denied(), key="run42/lane0*")

    shown = cli.run("preflight", *places.uris)
    told = cli.run("preflight", *places.uris, "--json").events[-1]

    assert shown.code == 1
    assert "12 objects looked at, 10 would fail." in shown.out
    assert "10 objects: AccessDenied (HeadObject)" in shown.out
    assert "run42/lane07" in shown.out
    assert (told["objects"], told["objects_failed"]) == (12, 10)
    assert [(one["error_code"], one["count"]) for one in told["causes"]] == [("AccessDenied", 10)]
    refused = cli.run("cp", *places.uris, "--preflight")
    assert refused.code == 1
    assert "Nothing was started" in refused.err
    assert places.arrived() == {}
    proxy.clear_rules()
    assert cli.run("cp", *places.uris, "--preflight").code == 0
    assert len(places.arrived()) == 12
    assert json.loads(cli.run("preflight", *places.uris, "--json").out)["objects_failed"] == 0
