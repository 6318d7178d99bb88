"""The description of the API serves generated clients: short operation ids, a type for the problems of each status."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from http_client import bearer, http_of

from seqferry.engine.engine import version
from seqferry.service import tokens
from seqferry.service.service import Service
from seqferry.settings.config import Settings


@pytest.fixture
def described(sqlite_settings: Settings) -> dict[str, Any]:
    with Service.open(sqlite_settings) as service, http_of(service, allow_crash=True) as client:
        return client.get("/openapi.json").json()


def _operations(described: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for path in described["paths"].values() for operation in path.values()]


def test_operation_ids_are_short_and_unique(described: dict[str, Any]) -> None:
    ids = [one["operationId"] for one in _operations(described)]

    assert len(ids) == len(set(ids)) > 40
    assert all(re.fullmatch(r"[a-z][a-z0-9_]{2,30}", one) for one in ids)
    assert {"list_transfers", "get_transfer", "pause_transfer", "pause_schedule"} <= set(ids)


def test_each_problem_has_a_schema_with_the_codes_of_its_status(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    seen = set[str]()
    for operation in _operations(described):
        for status, answer in operation["responses"].items():
            if status < "400":
                continue
            reference = answer["content"]["application/problem+json"]["schema"]["$ref"]
            problem = schemas[reference.rpartition("/")[2]]
            assert problem["properties"]["status"] == {"type": "integer", "const": int(status)}
            assert problem["properties"]["code"]["enum"]
            seen.add(status)

    assert {"400", "404", "409", "422", "503"} <= seen
    assert "errors" in schemas["Problem422"]["required"]
    assert "errors" not in schemas["Problem404"]["properties"]
    assert not {"HTTPValidationError", "ValidationError"} & schemas.keys()


def test_a_refused_request_has_the_documented_problem(sqlite_settings: Settings) -> None:
    with Service.open(sqlite_settings) as service, http_of(service) as client:
        answer = client.get("/api/v1/transfers", params={"limit": 0})

        assert answer.status_code == 422
        assert [one["where"] for one in answer.json()["errors"]] == ["query.limit"]


def test_the_server_tells_its_version_and_the_role_of_the_client(sqlite_settings: Settings) -> None:
    with Service.open(sqlite_settings) as service, http_of(service) as client:
        reader = tokens.add(service, "lab", "read")

        own = client.get("/api/v1/server").json()
        read = httpx.get(f"{client.base_url}/api/v1/server", headers=bearer(reader), trust_env=False).json()
        refused = httpx.get(f"{client.base_url}/api/v1/server", trust_env=False)

    assert own == {"version": version(), "client": {"name": "local", "role": "admin"}, "public_url": None}
    assert read["client"] == {"name": "lab", "role": "read"}
    assert refused.status_code == 401
