"""What a person at a terminal sees, and how soon."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_process import MIB, Cli, Places

from support.waiting import is_readable


def run_on_a_terminal(cli: Cli, *arguments: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit code and everything that was written to the terminal."""
    ours, theirs = pty.openpty()
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen(
        [cli.command, *arguments],
        env={
            **inherited,
            **cli.environment(),
            "TERM": "xterm-256color",
            "COLUMNS": "100",
            "LINES": "30",
            **(env or {}),
        },
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    written = b""
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            if not is_readable(ours, 0.1):
                if process.poll() is not None:
                    break
                continue
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            written += piece
        return process.wait(timeout=10), written.decode()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)


@pytest.fixture(params=[16 * MIB])
def filled(request: pytest.FixtureRequest, seaweedfs_places: Places) -> tuple[str, str]:
    """A source with objects of a size that a test may choose, and a target."""
    body = os.urandom(request.param)
    for name in ("one", "two", "odd\x1b[31m[red]\nname"):
        seaweedfs_places.s3.put_object(Bucket=seaweedfs_places.source, Key=f"run42/{name}", Body=body)
    return seaweedfs_places.uris


def test_the_display_is_live_and_cleans_up_after_itself(cli: Cli, filled: tuple[str, str]) -> None:
    code, shown = run_on_a_terminal(
        cli, "cp", *filled, "--part-size", "5MiB", "--copy-threshold", "5MiB", "--max-requests", "1"
    )

    assert code == 0, shown
    assert "━" in shown
    assert "of 3 objects" in shown or "of 3+" in shown
    assert "48.0 MiB" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") >= 1
    assert "Done: 3 objects in" in shown
    # The name of an object never reaches the terminal as an escape.
    assert "\x1b[31m[red]" not in shown


def test_no_color_is_honoured(cli: Cli, filled: tuple[str, str]) -> None:
    code, shown = run_on_a_terminal(cli, "cp", *filled, env={"NO_COLOR": "1"})

    assert code == 0, shown
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", shown)


def test_no_progress_shows_only_the_end(cli: Cli, filled: tuple[str, str]) -> None:
    code, shown = run_on_a_terminal(cli, "cp", *filled, "--no-progress")

    assert code == 0
    assert "\x1b" not in shown
    assert "Done: 3 objects in" in shown


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], {"sqlalchemy", "dbos", "fastapi", "rich", "seqferry.service", "seqferry.engine.engine"}),
        (["cp", "--help"], {"sqlalchemy", "dbos", "fastapi", "rich", "seqferry.service", "seqferry.engine"}),
        (["status"], {"dbos", "fastapi", "seqferry.workflows.worker"}),
    ],
)
def test_commands_import_only_what_they_need(cli: Cli, arguments: list[str], heavy: set[str]) -> None:
    """Start-up time is imports; counting them is steadier than measuring."""
    code = (
        "import sys\n"
        "from seqferry.cli.app import run\n"
        f"code = run({arguments!r})\n"
        f"assert code == 0 and not (found := {heavy!r} & set(sys.modules)), (code, found)\n"
    )

    assert cli.run("status").code == 0  # makes the database, which does need more

    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **cli.environment()},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["config", "show"]])
def test_a_full_disk_below_stdout_is_one_line_and_a_failure(cli: Cli, arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [cli.command, *arguments],
            env={**os.environ, **cli.environment()},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert (ran.returncode, ran.stderr) == (
        1,
        "seqferry: Short write to standard output: No space left on device. Free disk space.\n",
    )


@pytest.mark.parametrize("filled", [1000], indirect=True, ids=["small"])
@pytest.mark.parametrize("stderr", ["full disk", "terminal that is gone", "pipe that takes no more at this moment"])
def test_the_work_goes_on_where_what_is_said_of_it_cannot_be_written(
    cli: Cli, filled: tuple[str, str], tmp_path: Path, stderr: str
) -> None:
    """As below a log on a full disk, or in a shell that was left with the command in its background."""
    if stderr == "full disk":
        said, other = os.open("/dev/full", os.O_WRONLY), None
    elif stderr == "terminal that is gone":
        master, said = os.openpty()
        os.close(master)
        other = None
    else:
        other, said = os.pipe()
        os.set_blocking(said, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(said, b"x" * 4096)

    ran = subprocess.run(
        [cli.command, "cp", filled[0], f"{tmp_path}/in", "--exclude", "odd*"],
        env={**os.environ, **cli.environment()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=said,
        start_new_session=True,
        timeout=60,
        check=False,
    )
    for one in (said, other):
        if one is not None:
            os.close(one)

    assert ran.returncode == 0
    assert {path.name for path in (tmp_path / "in").iterdir()} == {"one", "two"}


@pytest.mark.parametrize(
    "module", ["seqferry.cli.app", "seqferry.settings.memory_limits", "typer", "seqferry.nextflow.shim"]
)
def test_an_interrupt_while_modules_are_imported_shows_no_traceback(cli: Cli, module: str) -> None:
    code = f"""
import os, signal, sys
from seqferry.cli import main

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["seqferry", *({["aws", "s3", "ls"] if module.endswith("shim") else ["status"]!r})]
main()
"""

    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **cli.environment()},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGINT, "", "")


def test_version_and_help(cli: Cli) -> None:
    assert re.match(r"seqferry ", cli.run("--version").out)
    options = re.findall(r"^  (?:-\w, )?--([\w-]+)", cli.run("cp", "--help").out, flags=re.MULTILINE)
    # Every option but those for help has its twin.
    twins = cli.run("cp", "--help-env").out
    for option in set(options) - {"help", "help-env", "name"}:
        assert re.search(rf"SEQFERRY_{option.upper().replace('-', '_')}\b", twins), option
    assert "SEQFERRY_TRANSFER_NAME" in twins  # SEQFERRY_NAME is the pattern of `ls`
    assert cli.run().code == 2
