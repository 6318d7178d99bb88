"""The routes of S3Mirror: a script written for it runs unchanged."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from control import ANY_SPEC, until_ended
from http_client import http_of
from mirror import SMALL, digests, fill

from seqferry.preflight import probes
from seqferry.service.service import Service
from seqferry.spec import job_defaults
from seqferry.spec.build import build_mirror_spec
from seqferry.workflows.worker import Worker
from support.proxy import Proxy, access_denied, expired_token, held
from support.servers import S3Server
from support.waiting import eventually

NOBODY = "ffffffff-0000-4000-8000-000000000000"
BucketFactory = Callable[..., str]


@pytest.fixture
def storage(s3server: S3Server, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The payload of S3Mirror names no endpoint: it comes from the environment of the server."""
    for name, value in proxy.server.environment().items():
        monkeypatch.setenv(name, value)
    return s3server


@pytest.fixture
def client(own: Service, start_worker: Callable[[Service], Worker], storage: S3Server) -> Iterator[httpx.Client]:
    start_worker(own)
    with http_of(own) as made:
        yield made


@pytest.fixture
def buckets(storage: S3Server, make_bucket: BucketFactory) -> tuple[str, str]:
    return make_bucket(storage), make_bucket(storage)


def _payload(buckets: tuple[str, str], **changes: Any) -> dict[str, Any]:
    return {
        "src_bucket": buckets[0],
        "src_prefix": "run/",
        "src_keys": None,
        "dst_bucket": buckets[1],
        "dst_prefix": "in/",
    } | changes


def _poll(client: httpx.Client, transfer_id: str) -> dict[str, Any]:
    """As a script does: until each file has been transferred or is in error."""

    def ended() -> dict[str, Any] | None:
        answer = client.get(f"/transfer_status/{transfer_id}")
        assert answer.status_code == 200, answer.text
        status = answer.json()
        return status if status["transferred"] + status["errors"] == status["files"] else None

    return eventually(ended, what="all files", deadline=60)


def test_a_script_posts_reads_the_id_and_polls_until_all_files_are_there(
    client: httpx.Client, storage: S3Server, proxy: Proxy, buckets: tuple[str, str], rng: random.Random
) -> None:
    sizes = {f"run/f{number:02d}.gz": SMALL for number in range(20)} | {"run/dir/g": 5, "runner": 1}
    fill(storage, buckets[0], sizes, rng)
    proxy.rule([], access_denied(), bucket=buckets[1], key_is="in/f07.gz")
    before = time.time() * 1000

    answer = client.post("/start_transfer", json=_payload(buckets))
    transfer_id = answer.json()
    status = _poll(client, transfer_id)

    assert answer.status_code == 200
    assert isinstance(transfer_id, str)
    assert {key: status[key] for key in ("files", "transferred", "errors")} == {
        "files": 21,
        "transferred": 20,
        "errors": 1,
    }
    assert set(status) == {"files", "transferred", "errors", "rate", "filewise"}
    assert 0 < status["rate"] < 1
    files = {one["file"]: one for one in status["filewise"]}
    assert set(files) == {key.removeprefix("run/") for key in sizes if key != "runner"}
    for name, file in files.items():
        assert set(file) == {"file", "size", "status", "tstart", "tend", "error"}
        assert file["size"] == sizes[f"run/{name}"] / 2**30
        assert before <= file["tstart"] <= time.time() * 1000
        if name == "f07.gz":
            assert (file["status"], file["tend"]) == ("ERROR", None)
            assert "AccessDenied" in file["error"]
        else:
            assert (file["status"], file["error"]) == ("SUCCESS", "None")
            assert file["tstart"] <= file["tend"] <= time.time() * 1000
    assert len(digests(storage, buckets[1], "in/")) == 20


@pytest.mark.every_server
def test_a_named_file_that_is_denied_has_its_size_and_so_has_its_retry(
    client: httpx.Client, own: Service, storage: S3Server, proxy: Proxy, buckets: tuple[str, str], rng: random.Random
) -> None:
    sizes = {f"run/{name}": SMALL + number for number, name in enumerate(("a", "b/ü c", "b/ü", "x"))}
    fill(storage, buckets[0], sizes | {f"run/b/{number:04d}": 1 for number in range(30)}, rng)
    for key in ("run/b/ü c", "run/x"):
        proxy.rule(["HeadObject", "GetObject"], access_denied(), bucket=buckets[0], key_is=key)
    names = [*(key.removeprefix("run/") for key in sizes), "gone"]

    transfer_id = client.post("/start_transfer", json=_payload(buckets, src_keys=names)).json()
    files = {one["file"]: (one["status"], one["size"] * 2**30) for one in _poll(client, transfer_id)["filewise"]}

    denied = {key.removeprefix("run/"): ("ERROR", size) for key, size in sizes.items() if key in ("run/b/ü c", "run/x")}
    assert files == {
        **{key.removeprefix("run/"): ("SUCCESS", size) for key, size in sizes.items()}, **denied, "gone": ("ERROR", 0),
    }  # fmt: skip

    proxy.rule(["ListObjectsV2"], access_denied(), bucket=buckets[0])
    until_ended(own, transfer_id)
    again = client.post(f"/api/v1/transfers/{transfer_id}/retry").json()["id"]
    assert until_ended(own, again).totals.failed == 3
    objects = client.get(f"/api/v1/transfers/{again}/objects").json()["objects"]
    failed = {f"run/{name}": size for name, (state, size) in files.items() if state == "ERROR"}
    assert {one["source_key"]: one["size"] for one in objects} == failed

    proxy.clear_rules()
    last = client.post(f"/api/v1/transfers/{again}/retry").json()["id"]
    assert until_ended(own, last).totals.done == 2
    wanted = {f"run/{name}": found for name, found in digests(storage, buckets[0], "run/").items() if name in files}
    assert {f"run/{name}": found for name, found in digests(storage, buckets[1], "in/").items()} == wanted


def test_the_first_status_names_every_file(
    client: httpx.Client, storage: S3Server, proxy: Proxy, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(storage, buckets[0], {f"run/{number}": SMALL for number in range(9)}, rng)

    with held(proxy, "CopyObject"):
        transfer_id = client.post("/start_transfer", json=_payload(buckets)).json()
        status = client.get(f"/transfer_status/{transfer_id}").json()

    assert (status["files"], status["transferred"], status["errors"]) == (9, 0, 0)
    assert {one["status"] for one in status["filewise"]} <= {"ENQUEUED", "PENDING"}
    assert {(one["tstart"], one["tend"], one["error"]) for one in status["filewise"]} == {(None, None, "None")}
    assert _poll(client, transfer_id)["transferred"] == 9


def test_prefixes_are_plain_strings(
    client: httpx.Client, storage: S3Server, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(storage, buckets[0], {"run/a": 1, "run2/run/b": 2, "other": 3}, rng)

    payload = _payload(buckets, src_prefix="run", dst_prefix="copy-")
    status = _poll(client, client.post("/start_transfer", json=payload).json())

    assert sorted(one["file"] for one in status["filewise"]) == ["/a", "2/run/b"]
    assert sorted(digests(storage, buckets[1])) == ["copy-/a", "copy-2/run/b"]


def test_listed_keys_follow_the_prefix(
    client: httpx.Client, storage: S3Server, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(storage, buckets[0], {"run/a": 1, "run/b": 2, "run/c": 3}, rng)

    status = _poll(client, client.post("/start_transfer", json=_payload(buckets, src_keys=["a", "c"])).json())

    assert sorted(one["file"] for one in status["filewise"]) == ["a", "c"]
    assert sorted(digests(storage, buckets[1])) == ["in/a", "in/c"]


def test_keys_that_cannot_be_read_are_errors_and_the_others_arrive(
    client: httpx.Client, storage: S3Server, proxy: Proxy, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(storage, buckets[0], {"run/a": 1, "run/denied": 2, "run/z": 3}, rng)
    proxy.rule("HeadObject", access_denied(), bucket=buckets[0], key_is="run/denied")
    listed = ["a", "denied", "absent", "long" * 300, "z"]

    answer = client.post("/start_transfer", json=_payload(buckets, src_keys=listed))
    status = _poll(client, answer.json())

    assert answer.status_code == 200
    assert (status["files"], status["transferred"], status["errors"]) == (5, 2, 3)
    errors = {one["file"]: one["error"] for one in status["filewise"] if one["status"] == "ERROR"}
    assert "no object" in errors["absent"]
    assert "HeadObject" in errors["denied"]
    assert "longer than" in errors["long" * 300]
    assert sorted(digests(storage, buckets[1])) == ["in/a", "in/z"]


def test_a_list_of_which_no_key_can_be_read_ends_with_an_error_for_each(
    client: httpx.Client, own: Service, proxy: Proxy, buckets: tuple[str, str]
) -> None:
    proxy.rule("HeadObject", access_denied(), bucket=buckets[0])

    transfer_id = client.post("/start_transfer", json=_payload(buckets, src_keys=list("abcdefghijklmno"))).json()
    status = _poll(client, transfer_id)

    assert (status["files"], status["transferred"], status["errors"]) == (15, 0, 15)
    assert own.status(transfer_id).error_code is None


def test_the_id_comes_before_any_key_is_looked_up_and_each_is_looked_up_once(
    client: httpx.Client, storage: S3Server, proxy: Proxy, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(storage, buckets[0], {f"run/{number}": 1 for number in range(30)}, rng)

    with held(proxy, "HeadObject"):
        answer = client.post("/start_transfer", json=_payload(buckets, src_keys=[str(n) for n in range(30)]))
        assert answer.status_code == 200
    status = _poll(client, answer.json())

    assert status["transferred"] == 30
    looked_up = [one.key for one in proxy.log("HeadObject") if one.bucket == buckets[0]]
    assert set(looked_up) == {f"run/{number}" for number in range(30)}
    assert len(looked_up) <= 30 + probes.PROBED, "once each, and again for the probe of the target"


def test_the_id_comes_before_a_prefix_is_listed(
    client: httpx.Client, storage: S3Server, proxy: Proxy, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(storage, buckets[0], {"run/a": 1}, rng)

    with held(proxy, ["ListObjectsV2", "ListObjects"]):
        answer = client.post("/start_transfer", json=_payload(buckets))
        assert answer.status_code == 200
    assert _poll(client, answer.json())["transferred"] == 1


def test_a_prefix_with_nothing_below_is_complete_at_once(client: httpx.Client, buckets: tuple[str, str]) -> None:
    status = _poll(client, client.post("/start_transfer", json=_payload(buckets)).json())

    assert (status["files"], status["transferred"], status["errors"], status["filewise"]) == (0, 0, 0, [])


def test_an_object_that_exists_but_differs_is_copied(
    client: httpx.Client, storage: S3Server, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(storage, buckets[0], {"run/a": 10}, rng)
    fill(storage, buckets[1], {"in/a": 10}, rng)

    status = _poll(client, client.post("/start_transfer", json=_payload(buckets)).json())

    assert status["transferred"] == 1
    assert digests(storage, buckets[1], "in/") == digests(storage, buckets[0], "run/")


def test_an_error_of_the_whole_job_ends_every_file(
    client: httpx.Client, storage: S3Server, proxy: Proxy, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(storage, buckets[0], {f"run/{number}": SMALL for number in range(9)}, rng)
    proxy.rule("CopyObject", expired_token())

    status = _poll(client, client.post("/start_transfer", json=_payload(buckets)).json())

    assert (status["files"], status["errors"]) == (9, 9)
    assert all(one["status"] == "ERROR" and "ExpiredToken" in one["error"] for one in status["filewise"])


def test_cancel_answers_null_and_the_files_are_cancelled(
    client: httpx.Client, own: Service, storage: S3Server, proxy: Proxy, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(storage, buckets[0], {f"run/{number}": SMALL for number in range(3)}, rng)
    with held(proxy, "CopyObject"):
        transfer_id = client.post("/start_transfer", json=_payload(buckets)).json()
        proxy.wait_held(count=3)

        answer = client.post(f"/cancel/{transfer_id}")

        assert (answer.status_code, answer.json()) == (200, None)
        until_ended(own, transfer_id, deadline=20)
    status = client.get(f"/transfer_status/{transfer_id}").json()
    assert {one["status"] for one in status["filewise"]} == {"CANCELLED"}
    assert (status["files"], status["transferred"], status["errors"]) == (3, 0, 0)
    assert client.post(f"/cancel/{transfer_id}").json() is None


def test_an_unknown_id_is_404(client: httpx.Client) -> None:
    assert client.get(f"/transfer_status/{NOBODY}").status_code == 404
    assert client.get("/transfer_status/no-id-at-all").status_code == 404
    assert client.post(f"/cancel/{NOBODY}").status_code == 404


def test_a_missing_bucket_is_told_by_start(client: httpx.Client, own: Service, buckets: tuple[str, str]) -> None:
    answer = client.post("/start_transfer", json=_payload(buckets, dst_bucket="no-such-bucket-here"))

    assert answer.status_code == 400
    assert "no-such-bucket-here" in answer.json()["detail"]
    assert own.transfers() == []


def test_a_status_is_not_given_before_the_source_is_listed(own: Service) -> None:
    transfer_id = own.submit(ANY_SPEC, actor="ada")

    with http_of(own, planning_timeout=0.2) as client:
        answer = client.get(f"/transfer_status/{transfer_id}")

    assert answer.status_code == 503
    assert "still being listed" in answer.json()["detail"]


def test_a_transfer_whose_source_could_not_be_listed_ends_for_a_script_with_an_error(
    client: httpx.Client, own: Service, storage: S3Server, buckets: tuple[str, str]
) -> None:
    """As when the bucket goes away between the start and the listing."""
    spec = build_mirror_spec("no-such-bucket-here", "run/", None, buckets[1], "in/")
    transfer_id = own.submit(spec, actor="ada")
    assert until_ended(own, transfer_id).state == "failed"

    status = _poll(client, transfer_id)

    assert {key: status[key] for key in ("files", "transferred", "errors")} == {
        "files": 1,
        "transferred": 0,
        "errors": 1,
    }
    assert (status["filewise"], status["rate"]) == ([], 0)


def test_crashing_is_there_only_when_it_was_allowed(own: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)

    routes = ("/crash_application", "/crash")
    with http_of(own) as client:
        assert [client.post(route).status_code for route in routes] == [404, 404]
    with http_of(own, allow_crash=True) as client:
        for route in routes:
            client.post(route)
        assert client.get("/crash").status_code == 405

    assert ended == [1, 1]


def test_what_the_environment_of_the_server_says_reaches_its_jobs(
    own: Service, storage: S3Server, buckets: tuple[str, str]
) -> None:
    given = {"SEQFERRY_PART_SIZE": "16MiB", "SEQFERRY_COPY_THRESHOLD": "32MiB", "SEQFERRY_IF_EXISTS": "skip"}
    defaults = job_defaults.read(given)
    source, target = (f"s3://{bucket}/x/" for bucket in buckets)
    with http_of(own, defaults=defaults) as client:
        mirrored = client.post("/start_transfer", json=_payload(buckets, src_keys=["a"])).json()
        body = {"source": source, "target": target, "part_size": 8 * 2**20}
        posted = client.post("/api/v1/transfers", json=body).json()["id"]
        moved = client.post("/api/v1/moves", json={"source": source, "target": f"{target}m/"}).json()["id"]
        checked = client.post("/api/v1/checks", json={"source": source, "target": f"{target}c/"}).json()["id"]

    specs = [own.status(one).spec for one in (mirrored, posted, moved)]
    assert [one.parts.part_size for one in specs] == [16 * 2**20, 8 * 2**20, 16 * 2**20]
    assert {one.parts.copy_threshold for one in specs} == {32 * 2**20}
    assert {one.selection.if_exists for one in specs} == {"skip"}
    assert specs[0].keys == ("a",)
    assert specs[0].strip == "run/"
    assert own.status(checked).spec.operation == "check"


def test_defaults_of_the_server_are_not_what_its_policy_refuses_to_clients(
    own: Service, storage: S3Server, buckets: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    body = {"source": f"s3://{buckets[0]}/x/", "target": f"s3://{buckets[1]}/x/"}
    with http_of(own, defaults={"endpoint_url": endpoint}) as client:
        assert client.post("/api/v1/transfers", json={**body, "endpoint_url": "http://else.where"}).status_code == 403
        answer = client.post("/api/v1/transfers", json=body)

    assert answer.status_code == 202, answer.text
    assert own.status(answer.json()["id"]).spec.source.endpoint_url == endpoint
