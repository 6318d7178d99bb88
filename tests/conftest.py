"""Shared fixtures: servers, buckets, a fault proxy, databases, seeds, and a clean environment."""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pytest

from support import lanes, pairs, servers, times
from support import postgres as postgres_server
from support.failures import pytest_terminal_summary  # noqa: F401 - a hook
from support.postgres import Postgres
from support.proxy import Proxy
from support.run import MissingToolError, Run, find_tool
from support.servers import KINDS, S3Server
from support.signals import heed_signals_in_children
from support.sim import Simulator
from support.syscalls import Syscalls

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_OURS = {
    "SEQFERRY_REQUIRE_SERVERS",
    "SEQFERRY_VERSITYGW",
    "SEQFERRY_WEED",
    "SEQFERRY_PROMTOOL",
    "SEQFERRY_PGBOUNCER",
    "SEQFERRY_S3PROXY",
    "SEQFERRY_S3SIM",
    "SEQFERRY_COMMAND",
    "SEQFERRY_MINIO",
    "SEQFERRY_MOTO",
    "SEQFERRY_PJDFSTEST",
    "SEQFERRY_FSX",
}
_KEPT = ("SEQFERRY_TEST_",)


def _clean_environment(folder: Path) -> None:
    """Hides the developer's AWS and Seqferry settings from this process and all that it starts."""
    for name in list(os.environ):
        ours = name.startswith("SEQFERRY_") and name not in _OURS and not name.startswith(_KEPT)
        if ours or name.startswith("AWS_") or name.lower() in {"http_proxy", "https_proxy", "all_proxy"}:
            del os.environ[name]
    os.environ.update(
        AWS_CONFIG_FILE=os.devnull,
        AWS_SHARED_CREDENTIALS_FILE=os.devnull,
        AWS_EC2_METADATA_DISABLED="true",
        AWS_ACCESS_KEY_ID=servers.MOVER.access_key,
        AWS_SECRET_ACCESS_KEY=servers.MOVER.secret_key,
        AWS_REGION=servers.REGION,
        AWS_DEFAULT_REGION=servers.REGION,
        XDG_STATE_HOME=str(folder / "home" / "state"),
        XDG_CONFIG_HOME=str(folder / "home" / "config"),
        XDG_CACHE_HOME=str(folder / "home" / "cache"),
        NO_COLOR="1",
        PYTHONUNBUFFERED="1",
    )


_RUN = pytest.StashKey[Run]()
_Started = TypeVar("_Started")


def pytest_configure(config: pytest.Config) -> None:
    worker = hasattr(config, "workerinput")
    run = Run.attach() if worker else Run.create()
    config.stash[_RUN] = run
    _clean_environment(run.folder)
    heed_signals_in_children()
    times.register(config)
    if not worker:
        os.environ.setdefault("SEQFERRY_TEST_SEED", str(random.SystemRandom().randrange(2**32)))
        pairs.begin(config)


@pytest.hookimpl(trylast=True)  # after -k and -m, so that a draw is among the selected items
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    lanes.leave_out(config, items)
    pairs.keep_drawn(items, config)
    _begin_with_long_tests(items)


def _begin_with_long_tests(items: list[pytest.Item]) -> None:
    """Has each process begin with some of the long tests, so that none of five minutes begins as the last."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    long = [one for one in items if one.get_closest_marker("long")]
    others = [one for one in items if not one.get_closest_marker("long")]
    # Each process is given as many tests in a row; one that is done takes over tests of others (--dist worksteal).
    share = -(-len(items) // processes)
    ordered: list[pytest.Item] = []
    for number in range(processes):
        mine = long[number::processes]
        ordered += mine + others[: share - len(mine)]
        others = others[share - len(mine) :]
    items[:] = ordered + others


def pytest_report_header() -> list[str]:
    return [f"seed: SEQFERRY_TEST_SEED={os.environ['SEQFERRY_TEST_SEED']}", pairs.header()]


def pytest_unconfigure(config: pytest.Config) -> None:
    run = config.stash.get(_RUN, None)
    if run is not None:
        run.close()


def _skip(missing: MissingToolError) -> NoReturn:
    """Skips, and says what to install; where everything must be there, fails."""
    if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
        pytest.fail(str(missing), pytrace=False)
    pytest.skip(str(missing))


@pytest.fixture(autouse=True)
def _attempts_end_with_the_test() -> Iterator[None]:
    """An engine of this process sets AWS_MAX_ATTEMPTS, which later tests and their commands would inherit."""
    yield
    os.environ.pop("AWS_MAX_ATTEMPTS", None)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """This test's own number, the same for the same SEQFERRY_TEST_SEED."""
    value = zlib.crc32(request.node.nodeid.encode(), int(os.environ["SEQFERRY_TEST_SEED"]) & 0xFFFFFFFF)
    print(f"seed {value} (SEQFERRY_TEST_SEED={os.environ['SEQFERRY_TEST_SEED']})")
    return value


@pytest.fixture
def rng(seed: int) -> random.Random:
    return random.Random(seed)


@pytest.fixture(scope="session")
def run(pytestconfig: pytest.Config) -> Run:
    """What the processes of this test run share."""
    return pytestconfig.stash[_RUN]


def _or_skip(start: Callable[[], _Started]) -> _Started:
    """What ``start`` starts, where its tool is there."""
    try:
        return start()
    except MissingToolError as missing:
        _skip(missing)


@pytest.fixture(scope="session")
def versitygw(run: Run) -> S3Server:
    return _or_skip(lambda: servers.start(run, "versitygw"))


@pytest.fixture(scope="session")
def seaweedfs(run: Run) -> S3Server:
    return _or_skip(lambda: servers.start(run, "seaweedfs"))


@pytest.fixture(scope="session")
def secure_server(run: Run) -> S3Server:
    """A versitygw that speaks TLS."""
    return _or_skip(lambda: servers.start_secure(run))


@pytest.fixture(scope="session")
def floor() -> Path:
    """The least client of ``make bench-transfer``."""
    return _or_skip(lambda: find_tool("floor", variable="SEQFERRY_FLOOR", hint="run `make tools`"))


@pytest.fixture(scope="session", params=KINDS)
def s3server(request: pytest.FixtureRequest, run: Run) -> S3Server:
    """Each kind of server in turn."""
    return _or_skip(lambda: servers.start(run, request.param))


@pytest.fixture
def make_bucket() -> Iterator[Callable[..., str]]:
    """``make_bucket(server, versioned=False)``: a fresh bucket, gone with all that is in it at the test's end."""
    made: list[tuple[S3Server, str]] = []

    def make(server: S3Server, *, versioned: bool = False) -> str:
        bucket = server.create_bucket(versioned=versioned)
        made.append((server, bucket))
        return bucket

    yield make
    for server, bucket in made:
        server.delete_bucket(bucket)


@pytest.fixture
def make_proxy() -> Iterator[Callable[[S3Server], Proxy]]:
    """``make_proxy(server)``: a recording fault proxy in front of a server, ended with the test."""
    made: list[Proxy] = []

    def make(server: S3Server) -> Proxy:
        try:
            proxy = Proxy(server)
        except MissingToolError as missing:
            _skip(missing)
        made.append(proxy)
        return proxy

    yield make
    for proxy in made:
        proxy.close()


@pytest.fixture
def proxy(s3server: S3Server, make_proxy: Callable[[S3Server], Proxy]) -> Proxy:
    """A recording fault proxy in front of ``s3server``."""
    return make_proxy(s3server)


@pytest.fixture
def syscalls(tmp_path: Path) -> Callable[[], Syscalls]:
    """``syscalls()``: traces one command."""
    made = 0

    def make() -> Syscalls:
        nonlocal made
        made += 1
        folder = tmp_path / f"trace{made}"
        folder.mkdir()
        return _or_skip(lambda: Syscalls(folder))

    return make


@pytest.fixture
def make_simulator() -> Iterator[Callable[..., Simulator]]:
    """``make_simulator("--instant", ...)``: an S3 simulator of the test's own, ended with it."""
    made: list[Simulator] = []

    def make(*options: str, **more: Any) -> Simulator:
        try:
            simulator = Simulator(*options, **more)
        except MissingToolError as missing:
            _skip(missing)
        made.append(simulator)
        return simulator

    yield make
    for simulator in made:
        simulator.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, for tests of the page."""
    from support.browser import Chromium  # not for each process of a run

    running = _or_skip(Chromium)
    yield running.browser
    running.close()


@pytest.fixture(scope="session")
def postgres(run: Run) -> Postgres:
    return _or_skip(lambda: postgres_server.start(run))


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """The address of a fresh database, dropped at the test's end."""
    name = postgres.create_database()
    yield postgres.url(name)
    postgres.drop_database(name)
