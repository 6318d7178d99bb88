"""The S3 simulator (``crates/testkit``, binary ``s3sim``) for Python: see ``docs/develop/simulator.md``."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote, urlsplit

from botocore.config import Config

from support.instrument import Instrument
from support.run import find_tool
from support.s3_clients import new_client

REGION = "us-east-1"


class Simulator(Instrument):
    """A running simulator. A context manager: it ends with the block, or with this process."""

    def __init__(self, *options: str, scenario: dict[str, Any] | None = None, folder: Any = None) -> None:
        """Starts one with command line ``options``; a ``scenario`` is written to ``folder`` first."""
        arguments = list(options)
        if scenario is not None:
            path = folder / "scenario.json"
            path.write_text(json.dumps(scenario))
            arguments += ["--scenario", str(path)]
        super().__init__("s3sim", *arguments)

    def client(self, *, access_key: str = "anybody", region: str = REGION, **config: Any) -> Any:
        """A boto3 S3 client without retries of its own."""
        options = {"retries": {"total_max_attempts": 1}, "max_pool_connections": 32, **config}
        return new_client(
            Config(**options),
            endpoint_url=self.endpoint_url,
            region_name=region,
            aws_access_key_id=access_key,
            aws_secret_access_key="anything",
        )

    def environment(self) -> dict[str, str]:
        """AWS variables for other clients."""
        return {
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "anything",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": self.endpoint_url,
        }

    def stats(self) -> dict[str, Any]:
        """See ``Stats`` in ``crates/testkit/src/sim.rs``."""
        return self.call("GET", "stats")

    def reset(self) -> None:
        """Counters begin anew; objects stay."""
        self.call("POST", "reset")

    def model(self) -> dict[str, Any]:
        """The parameters that its times and limits follow from, the scale of time included."""
        options = self.call("GET", "options")
        return {"time_scale": options["time_scale"], **options["model"]}

    def set_faults(self, *rules: dict[str, Any]) -> None:
        """Replaces the rules; see ``Rule`` in ``crates/testkit/src/sim/faults.rs``."""
        self.call("PUT", "faults", list(rules))

    def check(self, source: str, target: str) -> dict[str, Any]:
        """Whether all below ``source`` (``bucket/prefix``) is below ``target``, byte for byte by construction."""
        return self.call("GET", f"check?source={quote(source)}&target={quote(target)}")

    def assert_same(self, source: str, target: str, *, objects: int) -> None:
        found = self.check(source, target)
        assert (found["objects"], found["same"]) == (objects, objects), found

    def call(self, method: str, path: str, body: Any = None) -> Any:
        connection = HTTPConnection(urlsplit(self.endpoint_url).netloc, timeout=60)
        try:
            connection.request(method, f"/_sim/{path}", json.dumps(body) if body is not None else None)
            response = connection.getresponse()
            answer = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(f"{method} {path}: {answer['error']}")
        return answer


def refused(*options: Sequence[str] | str) -> str:
    """What s3sim says to options it does not take; fails when it takes them."""
    binary = find_tool("s3sim", variable="SEQFERRY_S3SIM", hint="run `make tools`")
    ended = subprocess.run(
        [str(binary), *map(str, options)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 2, ended
    assert ended.stdout == ""
    return ended.stderr
