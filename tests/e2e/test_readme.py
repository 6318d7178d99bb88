"""The example sessions of the manual and the README, run as written, one after the other."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.processes import run, seqferry
from support.run import MissingToolError
from support.servers import S3Server

ROOT = Path(__file__).parents[2]
README, MANUAL = ROOT / "README.md", ROOT / "docs/use/manual.md"
MARK = "--- next command ---"
BLOCK = re.compile(r"<!-- session: .*?-->\n```console\n(.*?)```", re.DOTALL)
DIGEST = re.compile(r"\b[0-9a-f]{64}\b")

Session = list[tuple[str, list[str]]]


def sessions(page: Path, expected: int) -> list[Session]:
    """The sessions of a page: their commands, each with the lines that it is said to print."""
    blocks = BLOCK.findall(page.read_text())
    assert len(blocks) == expected, f"a session of {page.name} is not marked as one"
    return [session(block) for block in blocks]


def write(page: Path, told: list[list[list[str]]]) -> None:
    """Put what the commands of the sessions of a page have printed into it."""
    text = page.read_text()
    for block, printed in zip(BLOCK.findall(text), told, strict=True):
        lines = [
            line
            for (command, _), output in zip(session(block), printed, strict=True)
            for line in (f"$ {command}".replace("\n", "\n> "), *output)
        ]
        text = text.replace(block, "".join(f"{line}\n" for line in lines))
    page.write_text(text)


def session(block: str) -> Session:
    found: Session = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith("> "):
            command, said = found[-1]
            found[-1] = (f"{command}\n{line[2:]}", said)
        else:
            found[-1][1].append(line)
    return found


def alike(lines: list[str]) -> list[str]:
    """Without what differs from run to run: ids, times, figures, and the width of columns."""
    text = "\n".join(lines)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\dZ?", "TIME", text)
    text = re.sub(r"\b(\d+-)?[0-9a-f]{64}\b", "DIGEST", text)  # a head counts what others have done meanwhile
    text = re.sub(r"\d+ min \d+ s|[\d.]+ s\b", "DURATION", text)
    text = re.sub(r"[\d.]+ [KMG]iB/s", "RATE", text)
    text = re.sub(r"\b2\d{7}\b", "SIZE", text)  # random data does not compress to the same size twice
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize("page", [README, *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name)
def test_digests_on_the_pages_are_of_runs(page: Path) -> None:
    """A digest has nearly all digits, and hardly five of the same in a row; the audit has the head of the summary."""
    found = DIGEST.findall(page.read_text())

    assert not [one for one in found if len(set(one)) < 11 or re.search(r"(.)\1{4}", one)]
    if page == README:
        assert found[-1] == found[-2]


@pytest.fixture
def named_buckets(seaweedfs: S3Server) -> Iterator[None]:
    names = ("vendor", "ours")
    for name in names:
        seaweedfs.create_bucket(name)
    yield
    for name in names:
        seaweedfs.delete_bucket(name)


@pytest.mark.long
@pytest.mark.usefixtures("named_buckets")
def test_the_sessions_print_what_the_pages_say(seaweedfs: S3Server, tmp_path: Path) -> None:
    try:
        command_folder = seqferry().parent
    except MissingToolError as missing:
        pytest.skip(str(missing))
    environment = {
        **seaweedfs.environment(),
        "PATH": f"{command_folder}:/usr/bin:/bin",
        "SEQFERRY_STATE_DIR": str(tmp_path / "state"),
        # On a terminal the progress is gone in the end; here it would stay.
        "SEQFERRY_NO_PROGRESS": "1",
    }
    first, second = sessions(MANUAL, 2)
    [transfer] = sessions(README, 1)

    told = run_session(first, environment, tmp_path)
    # The next command would also begin the transfer that this one has left to a worker, and name it if it ends later.
    detached = next(lines[0] for (command, _), lines in zip(first, told, strict=True) if "--detach" in command)
    run([str(seqferry()), "resume", detached], environment=environment, cwd=tmp_path)
    told += run_session(second, environment, tmp_path / "delivery")

    told += run_session(transfer, {**environment, "SEQFERRY_STATE_DIR": str(tmp_path / "new")}, tmp_path)

    if os.environ.get("SEQFERRY_TEST_WRITE_SESSIONS") == "1":
        write(MANUAL, [told[: len(first)], told[len(first) : -len(transfer)]])
        write(README, [told[-len(transfer) :]])
    for (command, said), lines in zip(first + second + transfer, told, strict=True):
        assert alike(lines) == alike(said), command


def run_session(commands: Session, environment: dict[str, str], folder: Path) -> list[list[str]]:
    """Output of each command, in one shell that begins in the folder."""
    assert len(commands) >= 3
    script = "".join(f"{command}\necho '{MARK}'\n" for command, _ in commands)
    ran = run(["bash", "-c", f"exec 2>&1\n{script}"], environment=environment, cwd=folder)
    printed = [part.strip("\n").splitlines() for part in ran.stdout.split(f"{MARK}\n")]
    assert printed.pop() == [], "what follows the last command"
    return printed
