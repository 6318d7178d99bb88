"""The quick checks of ``make compat`` on the servers that most people have, and the page that it writes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from compat import report
from compat.checks import Check, every_check, look
from compat.fleet import Endpoint, fleet
from support.run import MissingToolError, Run

QUICK = [check for check in every_check() if check.quick]


@pytest.fixture(scope="module", params=["minio", "moto"])
def endpoint(request: pytest.FixtureRequest, run: Run) -> Endpoint:
    product = fleet()[request.param]
    try:
        return Endpoint(**run.once(f"compat-{product.name}", lambda: vars(product.start(run))))
    except MissingToolError as missing:
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def bucket(endpoint: Endpoint) -> Iterator[str]:
    name = f"seqferry-compat-{uuid.uuid4().hex[:12]}"
    client = endpoint.client()
    client.create_bucket(Bucket=name)
    yield name
    client.delete_bucket(Bucket=name)


@pytest.mark.parametrize("check", QUICK, ids=lambda check: check.name)
def test_the_table_says_what_a_server_shows(endpoint: Endpoint, bucket: str, check: Check) -> None:
    found = look(endpoint, check, bucket, seed=uuid.uuid4().int & 0xFFFFFFFF)

    assert found.verdict != "fails", found.note
    recorded = report.load()[endpoint.name]["findings"][check.name]
    assert {"verdict": found.verdict, "note": found.note} == recorded


def test_the_page_holds_what_was_found() -> None:
    text = report.PAGE.read_text(encoding="utf-8")

    assert report.page(text, report.load()) == text


def test_no_server_is_known_to_fail_without_a_reason() -> None:
    for name, record in report.load().items():
        for check, found in record["findings"].items():
            assert found["verdict"] != "fails" or found["note"], f"{name} {check}"
