"""Machines of the templates for AWS: their user data runs in a Debian with systemd, and their units work.

The machine is emulated. Its release is of this checkout; S3 is a real server, and moto is the rest of AWS.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tarfile
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import boto3
import pytest

from compat import fleet
from compat.fleet import Endpoint
from support import guest
from support.cloudformation import Template, script
from support.run import ROOT, MissingToolError, Run
from support.servers import MOVER, S3Server

HOST: Final = "10.0.2.2"
"""This machine's loopback, in the guest."""

VERSION: Final = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
PYTHON: Final = ROOT / "python/seqferry"

# The AWS CLI of the guest knows no variable for an endpoint.
AWS: Final = """#!/bin/sh
export AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b
exec /usr/bin/aws --endpoint-url {moto} "$@"
"""

TAG: Final = "cp311-abi3-manylinux_2_17_x86_64"
UNITS: Final = ("seqferry-gateway", "seqferry", "seqferry-worker@", "seqferry-drain")

# What scenarios call: a line of what they see, and the status of an address.
FUNCTIONS: Final = """#!/bin/bash
say() { echo "GUEST $*"; }
is() { say "$1" "$(systemctl is-active "$2")"; }
place() { say "$1" on "$(findmnt --noheadings --output SOURCE --target "$2")"; }
ask() { python3 -c 'import sys, urllib.request as u; print("GUEST", sys.argv[1], u.urlopen(sys.argv[1]).status)' "$1"; }
"""


def write_release(folder: Path) -> None:
    """What a release consists of, as far as machines use it: of this checkout, without a compiler."""
    folder.mkdir()
    name = f"seqferry-{VERSION}"
    about = f"{name}.dist-info"
    files = {
        f"seqferry/{path.relative_to(PYTHON)}": path.read_bytes()
        for path in sorted(PYTHON.rglob("*"))
        if path.is_file() and path.suffix != ".pyc" and path.relative_to(PYTHON).parts[:2] != ("api", "docs")
    }
    files |= {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: seqferry\nVersion: {VERSION}\n".encode(),
        f"{about}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode(),
        f"{about}/entry_points.txt": b"[console_scripts]\nseqferry = seqferry.cli:main\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{one},,\n" for one in (*files, f"{about}/RECORD")).encode()
    with zipfile.ZipFile(folder / f"{name}-{TAG}.whl", "w", zipfile.ZIP_STORED) as wheel:
        for one, content in files.items():
            wheel.writestr(one, content)
    (folder / "requirements-runtime.lock").write_bytes((ROOT / "requirements-runtime.lock").read_bytes())
    with tarfile.open(folder / f"{name}.tar.gz", "w:gz", compresslevel=1) as sdist:
        sdist.add(ROOT / "deploy", f"{name}/deploy")
    sums = [f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}\n" for one in sorted(folder.iterdir())]
    (folder / "SHA256SUMS").write_text("".join(sums))


class Site:
    """A release and its packages over HTTP, the signals to stacks, and the metadata of an instance."""

    def __init__(self, folder: Path) -> None:
        self.said: list[dict[str, str]] = []
        self.metadata = {"instance-id": "i-0123456789abcdef0", "autoscaling/target-lifecycle-state": "InService"}
        site = self

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments, directory=str(folder))

            def log_message(self, *_: object) -> None:
                pass

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                name = self.path.partition("/latest/meta-data/")[2]
                if name in site.metadata:
                    self._answer(site.metadata[name].encode())
                else:
                    super().do_GET()

            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.path == "/handle?X=1&Y=2":
                    site.said.append(json.loads(body))
                self._answer(b"token")

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://{HOST}:{self.server.server_address[1]}"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    if missing := guest.missing_debian():
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    folder = tmp_path / "site"
    folder.mkdir()
    write_release(folder / "release")
    (folder / "packages").symlink_to(ROOT / ".tools/guest/packages")
    found = Site(folder)
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


@pytest.fixture(scope="session")
def moto(run: Run) -> Endpoint:
    try:
        return fleet.fleet()["moto"].start(run)
    except MissingToolError as missing:
        pytest.skip(str(missing))


def in_guest(url: str) -> str:
    return url.replace("127.0.0.1", HOST)


def machine_files(site: Site, moto: Endpoint, units: str, **scripts: str) -> dict[str, str]:
    """Files of a guest beside those that its set-up makes."""
    return {
        "etc/pip.conf": f"[global]\nno-index = true\nfind-links = {site.url}/packages/\ntrusted-host = {HOST}\n",
        "usr/local/bin/aws": AWS.format(moto=in_guest(moto.url)),
        **{f"etc/systemd/system/{unit}.service.d/test.conf": f"[Service]\n{units}" for unit in UNITS},
        **{f"user-data-{name}": text for name, text in scripts.items()},
    }


def user_data(site: Site, text: str) -> str:
    """The script of user data, with the release and the stack of this test."""
    return script(text).replace('"Started"', f'"{site.url}/handle?X=1&Y=2"')


GATEWAY: Final = """
/user-data-gateway
is gateway seqferry-gateway.service
is figures seqferry-publish.timer
ask http://127.0.0.1:9465/healthz
runuser --user seqferry -- /opt/seqferry/bin/seqferry gateway status --cache /var/cache/seqferry-gateway
/opt/seqferry/bin/seqferry gateway check 10.0.2.15 /runs
place cache /var/cache/seqferry-gateway
place state /var/lib/seqferry-gateway
systemctl start seqferry-publish.service || journalctl --no-pager --lines 20 --unit seqferry-publish.service
before=$(systemctl show --property MainPID seqferry-gateway.service)
/user-data-gateway
[ "$before" = "$(systemctl show --property MainPID seqferry-gateway.service)" ] && say is left as it was
/user-data-refused
python3 -c 'import socket; socket.create_connection(("127.0.0.1", 2049))' 2>/dev/null || say serves nothing
systemctl poweroff
"""


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_a_gateway_serves_its_share_or_the_stack_shows_why_it_does_not(
    site: Site, versitygw: S3Server, moto: Endpoint, tmp_path: Path
) -> None:
    bucket = versitygw.create_bucket()
    parameters = {
        "AWS::Region": versitygw.region,
        "ClientNetwork": "10.0.2.0/24",
        "ReleaseUrl": f"{site.url}/release",
        "Access": "read-write",
    }
    good, bad = (Template("gateway", {**parameters, "Bucket": one}) for one in (bucket, "no-such-bucket"))
    texts = [user_data(site, one.properties("Instance")["UserData"]) for one in (good, bad)]
    units = "".join(f"Environment={name}={in_guest(value)}\n" for name, value in versitygw.environment(MOVER).items())
    files = machine_files(site, moto, units, gateway=texts[0], refused=texts[1])

    with guest.booted_debian(tmp_path, files, FUNCTIONS + GATEWAY) as machine:
        assert machine.wait(2000) == 0
        said = machine.stdout

    assert "GUEST gateway active" in said
    assert "GUEST figures active" in said
    assert "GUEST http://127.0.0.1:9465/healthz 200" in said
    assert re.search(r"(?m)^/runs +0 files", said)
    assert re.search(r"mount -t nfs -o nolock,hard 10\.0\.2\.15:/runs", said)
    assert "GUEST cache on /dev/vdb[/cache]" in said
    assert "GUEST state on /dev/vdb[/state]" in said
    assert "GUEST is left as it was" in said
    assert "GUEST serves nothing" in said
    assert [one["Status"] for one in site.said] == ["SUCCESS", "SUCCESS", "FAILURE"], said
    assert "no-such-bucket" in site.said[2]["Reason"]
    assert "\n" not in site.said[2]["Reason"]
    assert published(moto) >= {"Healthy", "FailingFiles", "OldestDirtySeconds", "CachePercentDirty"}


FLEET: Final = """
/user-data-server
is server seqferry.service
ask http://10.0.2.15:8080/healthz
ask http://10.0.2.15:8080/readyz
place database /var/lib/postgresql
/user-data-worker
is worker seqferry-worker@1.service
systemctl start seqferry-publish.service || journalctl --no-pager --lines 20 --unit seqferry-publish.service
say works
for _ in $(seq 600); do
    [ "$(systemctl is-active seqferry-worker@1.service)" = inactive ] && break
    sleep 1
done
say worker "$(systemctl show --property Result seqferry-worker@1.service)"
is drained seqferry-worker@1.service
systemctl poweroff
"""


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_a_server_and_a_worker_share_their_database_and_the_worker_is_drained(
    site: Site, moto: Endpoint, tmp_path: Path
) -> None:
    secrets = boto3.client("secretsmanager", **client_options(moto))
    named = {
        name: secrets.create_secret(Name=f"{name}-{tmp_path.name}", SecretString=f"{name}0123456789")["ARN"]
        for name in ("DatabaseSecret", "TokenSecret")
    }
    template = Template("fleet", {"AWS::Region": moto.region, "Database": "local", "ReleaseUrl": f"{site.url}/release"})
    texts = {
        "server": template.properties("Server")["UserData"],
        "worker": template.properties("WorkerMachine")["LaunchTemplateData"]["UserData"],
    }
    for name, text in texts.items():
        text = user_data(site, text).replace('"Server.PrivateIp"', '"10.0.2.15"')
        for resource, arn in named.items():
            text = text.replace(f'"{resource}"', f'"{arn}"')
        texts[name] = text
    units = f"Environment=AWS_EC2_METADATA_SERVICE_ENDPOINT={site.url}\n"

    with guest.booted_debian(tmp_path, machine_files(site, moto, units, **texts), FUNCTIONS + FLEET) as machine:
        machine.wait_for_output("GUEST works", 1700)
        site.metadata["autoscaling/target-lifecycle-state"] = "Terminated"
        assert machine.wait(600) == 0
        said = machine.stdout

    assert "GUEST server active" in said
    assert "GUEST http://10.0.2.15:8080/healthz 200" in said
    assert "GUEST http://10.0.2.15:8080/readyz 200" in said
    assert "GUEST database on /dev/vdb[/postgresql]" in said
    assert "GUEST worker active" in said
    assert "GUEST worker Result=success" in said
    assert "GUEST drained inactive" in said
    assert [one["Status"] for one in site.said] == ["SUCCESS"], said
    assert published(moto) >= {"WantedWorkers", "AliveWorkers"}


def client_options(moto: Endpoint) -> dict[str, str]:
    return {
        "endpoint_url": moto.url,
        "region_name": moto.region,
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
    }


def published(moto: Endpoint) -> set[str]:
    """Names of the metrics of the stack that moto has."""
    found = boto3.client("cloudwatch", **client_options(moto)).list_metrics(Namespace="Seqferry")["Metrics"]
    assert all(one["Dimensions"] == [{"Name": "Stack", "Value": "ferry"}] for one in found)
    return {one["MetricName"] for one in found}
