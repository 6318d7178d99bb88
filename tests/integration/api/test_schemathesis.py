"""The API keeps to its own description, whatever is asked: found by Schemathesis over the real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from control import add_batch, planned, spec_number
from http_client import http_of

from seqferry.service.service import Service
from seqferry.settings.config import Settings

_EXAMPLES = os.environ.get("SEQFERRY_TEST_EXAMPLES")
"""Random requests to each route, beside those that walk through all that its description says.

Set: drawn anew in each run, from SEQFERRY_TEST_SEED. Not set: the same few in each run.
"""

_FEW, _SEED = 5, 20261124

_AT_ONCE = 4
"""Processes that ask, each some of the routes: nearly all of the time is waits for a storage that does not answer.

Threads of one process end it now and then: the parser of Python 3.11 takes no two of Hypothesis's at a time.
"""

_CONFIG = """
request-timeout = 20
seed = {seed}
color = false

[generation]
max-examples = {examples}
database = "none"

# What the storage does is no fault of the server, and what values have to do with each other no schema tells.
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 502, 503, 504]

[checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 403, 404, 409, 502, 503, 504]

[auth.openapi.HTTPBearer]
bearer = "{token}"
"""


@pytest.mark.long
def test_every_answer_is_documented_and_none_is_a_fault(
    sqlite_settings: Settings, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with Service.open(sqlite_settings) as service, http_of(service, planning_timeout=1.0) as client:
        ids = [service.submit(spec_number(number), actor="ada") for number in range(2)]
        with service.database.write() as connection:
            add_batch(connection, ids[0], [planned(str(number)) for number in range(5)])
        service.cancel(ids[1], actor="ada")
        token = client.headers["Authorization"].partition(" ")[2]
        drawn = _SEED if _EXAMPLES is None else seed % 2**31
        config = tmp_path / "schemathesis.toml"
        config.write_text(_CONFIG.format(examples=_EXAMPLES or _FEW, seed=drawn, token=token))

        description = tmp_path / "openapi.json"
        description.write_bytes(client.get("/openapi.json").content)

        paths = [path for path in json.loads(description.read_bytes())["paths"] if not path.endswith("/events")]
        command = (
            *(sys.executable, "-m", "schemathesis.cli"),
            *("--config-file", str(config), "run", str(description), "--url", str(client.base_url)),
            *("--phases", "examples,coverage,fuzzing"),
        )

        def ask(paths: list[str]) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*command, *(word for path in paths for word in ("--include-path", path))],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=500,
                check=False,
                env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NO_COLOR": "1"},
            )

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            ended = list(pool.map(ask, (paths[number::_AT_ONCE] for number in range(_AT_ONCE))))

    for ran in ended:
        assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
