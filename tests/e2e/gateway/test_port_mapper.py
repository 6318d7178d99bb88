"""Clients find the port of a gateway by the port mapper, in a network of their own: port 111 exists once."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from support import guest
from support.gateways import ServedShares
from support.links import Link, link_or_skip
from support.processes import RunningProcess, run, seqferry
from support.proxy import Proxy
from support.servers import S3Server

_SHARE = '[[share]]\nname = "{name}"\nsource = "s3://{bucket}/runs/"\nclients = [{clients}]\n'
_ANY = '"127.0.0.0/8", "198.18.0.0/15"'
_WIDE = 1 << 30
"""Bytes per second: more than is sent."""


@pytest.fixture
def link() -> Iterator[Link]:
    """A network without other programs."""
    yield from link_or_skip(_WIDE)


@pytest.fixture
def ending() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def bucket(server: S3Server, make_bucket: Callable[..., str]) -> str:
    made = make_bucket(server)
    server.client().put_object(Bucket=made, Key="runs/one", Body=b"1\n")
    return made


@pytest.fixture
def server(s3server: S3Server, link: Link, ending: ExitStack) -> S3Server:
    """The server as it is reached from that network."""
    return ending.enter_context(Proxy(s3server, address=link.address)).server


def _serve(
    server: S3Server, config: str, folder: Path, ending: ExitStack, within: tuple[str, ...], *options: str
) -> ServedShares:
    folder.mkdir(exist_ok=True)
    options = ("--host", "0.0.0.0", *options)
    return ending.enter_context(closing(ServedShares(folder, server, config, *options, within=within)))


def _check(within: tuple[str, ...], *arguments: str, expect: int = 0) -> dict[str, tuple[str, str]]:
    """Level and text of each finding of ``gateway check``."""
    done = run([*within, seqferry(), "gateway", "check", *arguments, "--json"], expect=expect)
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(finding["advice"] for finding in findings if finding["level"] != "ok"), findings
    return {finding["topic"]: (finding["level"], finding["text"]) for finding in findings}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("nfs4", [False, True], ids=["version 3 alone", "version 4 too"])
def test_the_kernel_mounts_with_the_line_that_names_no_port(
    nfs4: bool, server: S3Server, bucket: str, link: Link, ending: ExitStack, tmp_path: Path
) -> None:
    if (missing := guest.missing()) is not None:
        pytest.skip(missing)
    config = _SHARE.format(name="share", bucket=bucket, clients=_ANY)
    # Version 4, which clients try first, is always at this port.
    shares = _serve(server, config, tmp_path, ending, link.within, "--port", "2049")
    machine = ending.enter_context(
        guest.booted(
            tmp_path,
            shares.port,
            "/share",
            "cat one | sed 's/^/READ /'; grep ' /mnt ' /proc/mounts",
            programs=[guest.unpacked("mount.nfs"), Path("/usr/bin/mount")],
            mount="/bin/mount -v -t nfs -o nolock,hard 10.0.2.2:/share /mnt",
            nfs4=nfs4,
            within=link.within,
        )
    )
    machine.wait_for_output("GUEST done", deadline=300)
    lines = [line.strip() for line in machine.stdout.splitlines()]
    assert "READ 1" in lines
    [mounted] = [line for line in lines if line.startswith("10.0.2.2:/share /mnt nfs ")]
    assert "vers=3" in mounted
    assert "GUEST unmounted" in lines


def test_each_share_is_named_with_its_line_and_a_client_checks_it(
    server: S3Server, bucket: str, link: Link, ending: ExitStack, tmp_path: Path
) -> None:
    config = _SHARE.format(name="runs", bucket=bucket, clients=_ANY)
    config += _SHARE.format(name="closed", bucket=bucket, clients='"10.9.9.9"')
    shares = _serve(server, config, tmp_path, ending, link.within)
    [line] = [line for line in shares.process.stderr.splitlines() if line.endswith(":/runs /mnt")]
    assert line.strip().startswith("mount -t nfs -o nolock,hard ")
    found = _check(link.within, "127.0.0.1", "runs")
    assert found["port mapper"] == ("ok", f"NFS 3 is at port {shares.port}, MOUNT 3 at port {shares.port}")
    assert found["UDP"] == ("ok", f"MOUNT 3 answers at port {shares.port}")
    assert found["NFS 4"] == ("ok", "is refused, and clients take version 3")
    assert found["shares"] == ("ok", "this machine may mount /runs")
    assert found["share"] == ("ok", "/runs can be mounted")
    assert found["mount"] == ("ok", "mount -t nfs -o nolock,hard 127.0.0.1:/runs /mnt")
    assert _check(link.within, "127.0.0.1", "closed", expect=1)["share"][0] == "problem"
    assert "no such share" in _check(link.within, "127.0.0.1", "/absent", expect=1)["share"][1]


def test_without_a_port_mapper_the_line_names_the_ports(
    server: S3Server, bucket: str, link: Link, ending: ExitStack, tmp_path: Path
) -> None:
    taken = 'import socket; s = socket.create_server(("0.0.0.0", 111)); print("taken", flush=True); s.accept()'
    other = ending.enter_context(RunningProcess([*link.within, "python3", "-c", taken]))
    other.wait_for_output("taken")
    config = _SHARE.format(name="runs", bucket=bucket, clients=_ANY)
    shares = _serve(server, config, tmp_path, ending, link.within)
    said = shares.process.stderr
    port = shares.port
    assert said.count("the port mapper cannot be served at 0.0.0.0:111: Address already in use") == 1, said
    options = f"vers=3,tcp,port={port},mountport={port},mountproto=tcp,nolock,hard"
    assert f"mount -t nfs -o {options} " in said
    found = _check(link.within, "127.0.0.1", "runs", "--port", str(port))
    assert found["mount"] == ("ok", f"mount -t nfs -o {options} 127.0.0.1:/runs /mnt")


def test_what_is_in_the_way_of_a_client_is_said(
    server: S3Server, bucket: str, link: Link, ending: ExitStack, tmp_path: Path
) -> None:
    assert _check(link.within, "127.0.0.1", expect=1)["NFS 3"][0] == "problem"
    assert _check((), "no such host", expect=1).keys() == {"name"}
    config = _SHARE.format(name="runs", bucket=bucket, clients='"10.9.9.9"')
    shares = _serve(server, config, tmp_path, ending, link.within)
    found = _check(link.within, "127.0.0.1", "--port", str(shares.port), expect=1)
    assert found["NFS 3"] == ("problem", f"127.0.0.1:{shares.port}: the server closes connections of this machine")
    http = f"http.server --bind 127.0.0.1 {shares.port + 1}".split()
    web = ending.enter_context(RunningProcess([*link.within, "python3", "-u", "-m", *http]))
    web.wait_for_output("Serving")
    assert _check(link.within, "127.0.0.1", "--port", str(shares.port + 1), expect=1)["NFS 3"][0] == "problem"


def test_a_running_rpcbind_names_the_port_until_the_gateway_ends(
    server: S3Server, bucket: str, link: Link, ending: ExitStack, tmp_path: Path
) -> None:
    if (missing := guest.missing()) is not None:
        pytest.skip(missing)
    # Its socket has a name of its own as well.
    start = (
        "mount -t tmpfs none /run && mkdir /run/rpcbind && cp /etc/passwd /run/passwd && "
        "echo '_rpc:x:65534:65534::/run/rpcbind:/bin/false' >> /run/passwd && mount --bind /run/passwd /etc/passwd && "
        f"echo started && exec {guest.unpacked('rpcbind')} -f -w"
    )
    environment = {"LD_LIBRARY_PATH": guest.library_path()}
    command = [*link.within, "unshare", "--mount", "--kill-child", "sh", "-c", start]
    rpcbind = ending.enter_context(RunningProcess(command, environment=environment))
    rpcbind.wait_for_output("started")
    within = ("nsenter", "-t", str(rpcbind.pid), "--mount", "--net")
    config = _SHARE.format(name="runs", bucket=bucket, clients=_ANY)

    def registered() -> str:
        listed = run([*within, guest.unpacked("rpcinfo"), "-p", "127.0.0.1"], environment=environment).stdout
        return "\n".join(line for line in listed.splitlines() if "nfs" in line or "mountd" in line or "10000" in line)

    killed = _serve(server, config, tmp_path / "killed", ending, within)
    assert _check(within, "127.0.0.1", "runs")["mount"][1] == "mount -t nfs -o nolock,hard 127.0.0.1:/runs /mnt"
    killed.process.kill()
    shares = _serve(server, config, tmp_path / "next", ending, within)
    assert shares.port != killed.port
    found = _check(within, "127.0.0.1", "runs")
    assert found["port mapper"] == ("ok", f"NFS 3 is at port {shares.port}, MOUNT 3 at port {shares.port}")
    second = _serve(server, config, tmp_path / "second", ending, within)
    assert "another server has registered NFS with rpcbind" in second.process.stderr
    shares.process.signal(signal.SIGTERM)
    shares.process.wait()
    assert str(shares.port) not in registered()
    assert _check(within, "127.0.0.1", expect=1)["port mapper"][0] == "warning"
