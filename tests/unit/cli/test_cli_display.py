"""What a person or a program is shown while a transfer runs."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console
from statuses import status

from seqferry.cli.output import display, progress_text
from seqferry.cli.output.progress_bar import LiveDisplay, render
from seqferry.model.models import ActiveObject, LiveActivity
from seqferry.model.progress import eta

MIB = 1024**2

MOVING = status(
    objects=60,
    done=30,
    skipped=2,
    failed=2,
    bytes=1024 * MIB,
    bytes_done=512 * MIB,
    live=LiveActivity(
        workers=1,
        bytes_per_second=128.0 * MIB,
        in_flight=4,
        requests=90,
        retries=3,
        throttled=1,
        slowest=(ActiveObject("fastq/\x1b[31m[bold]evil[/bold]\nname.fastq.gz", 160 * MIB, 40 * MIB, 3.2),),
    ),
)


def drawn(width: int, shown: object = None) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, legacy_windows=False)
    console.print(render(MOVING if shown is None else shown, width))  # type: ignore[arg-type]
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_picture_tells_bytes_objects_rate_eta_and_trouble() -> None:
    shown = drawn(110)

    for figure in ("50 %", "512.0 MiB of 1.0 GiB", "34 of 60 objects", "128.0 MiB/s", "ETA 4.0 s"):
        assert figure in shown
    for trouble in ("2 failed", "3 retries", "1 throttled", "2 already there", "4 in flight"):
        assert trouble in shown


def test_keys_are_neither_markup_nor_terminal_escapes() -> None:
    shown = drawn(110)

    assert "\\x1b[31m[bold]evil[/bold]\\nname.fastq.gz" in shown
    assert "\x1b[31m" not in shown


@pytest.mark.parametrize("width", [20, 40, 60, 80, 110])
def test_the_picture_fits_the_terminal(width: int) -> None:
    lines = drawn(max(width, 48)).splitlines()

    assert max(len(line) for line in lines) <= max(width, 48)
    # One line each: headline, bar, figures, one object in flight.
    assert len(lines) == 4


def test_growing_totals_are_marked_while_listing() -> None:
    listing = status(
        "planning", planned=False, objects=1000, bytes=5 * MIB, live=LiveActivity(workers=1, bytes_per_second=1.0)
    )

    assert "0 of 1,000+ objects (still listing)" in drawn(110, listing)
    assert "ETA" not in drawn(110, listing)
    assert "0 of 1,000+ objects, 0 B of 5.0 MiB+" in progress_text.progress_line(listing)


def test_a_transfer_without_a_worker_says_so_after_a_while() -> None:
    console = Console(file=io.StringIO(), width=110)

    console.print(render(status(objects=2), 110, idle=True))

    assert isinstance(console.file, io.StringIO)
    assert "no worker at it" in console.file.getvalue()
    assert "no worker at it" not in drawn(110, status(objects=2))


def test_no_trouble_is_not_mentioned() -> None:
    line = progress_text.progress_line(
        status(objects=2, done=1, bytes=4 * MIB, bytes_done=MIB, live=LiveActivity(workers=1))
    )

    assert line == "running: 1 of 2 objects, 1.0 MiB of 4.0 MiB (25 %)"
    assert "/s" not in drawn(110, status(objects=2, done=1, bytes=4 * MIB, bytes_done=MIB))


def test_a_hundred_percent_only_when_all_is_there() -> None:
    assert progress_text.percent(status(bytes=10**12, bytes_done=10**12 - 1).totals) == 99
    assert progress_text.percent(status(bytes=10**12, bytes_done=10**12).totals) == 100
    assert progress_text.percent(status().totals) is None


def test_plain_lines_come_on_state_changes_not_on_every_look(capsys: pytest.CaptureFixture[str]) -> None:
    plain = display.PlainDisplay()

    for state in ("queued", "planning", "planning", "running", "running", "running"):
        plain.update(status(state, objects=3))

    out, err = capsys.readouterr()
    assert out == ""
    assert re.findall(r"Z (\w+):", err) == ["queued", "planning", "running"]
    assert "\x1b" not in err


def test_json_events_are_one_object_per_line_with_raw_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    events = display.JsonDisplay()

    events.show_submission("some-id")
    events.update(MOVING)
    events.update(MOVING)

    out, err = capsys.readouterr()
    assert err == ""
    submitted, progress = (json.loads(line) for line in out.splitlines())
    assert (submitted["event"], submitted["id"]) == ("submitted", "some-id")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", submitted["at"])
    assert progress["bytes_done"] == 512 * MIB
    assert progress["slowest"][0]["key"] == "fastq/\x1b[31m[bold]evil[/bold]\nname.fastq.gz"
    assert "\x1b" not in out


def test_the_display_is_chosen_by_the_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(display.choose_display(as_json=False, quiet=False, progress=True), display.PlainDisplay)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert isinstance(display.choose_display(as_json=False, quiet=False, progress=True), LiveDisplay)
    assert isinstance(display.choose_display(as_json=False, quiet=True, progress=True), display.QuietDisplay)
    assert isinstance(display.choose_display(as_json=True, quiet=False, progress=True), display.JsonDisplay)
    assert isinstance(display.choose_display(as_json=False, quiet=False, progress=False), display.PlainDisplay)

    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    assert isinstance(display.choose_display(as_json=False, quiet=False, progress=True), display.PlainDisplay)


def test_the_live_display_leaves_the_terminal_as_it_was() -> None:
    file = io.StringIO()
    live = LiveDisplay(Console(file=file, force_terminal=True, width=80))

    live.show_submission("some-id")
    live.update(MOVING)
    live.close()
    live.close()

    written = file.getvalue()
    assert "transfer some-id" in written
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80)

    console.print(render(MOVING, 80))

    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", file.getvalue())


@pytest.mark.parametrize(
    ("after", "done", "rate", "expected"),
    [
        (1, 10, 0.1, None),  # too early
        (9, 49, 0.2, None),
        (5, 50, 10.0, 95.0),  # early, but a twentieth is done
        (19, 40, 10.0, None),  # requests in flight are still becoming more
        (20, 10, 10.0, 99.0),
        (50, 900, 0.02, 100 / 18),  # the last objects end slowly: the mean since the start counts
        (100_000, 500, 50.0, 10.0),  # it was paused for long: the present rate counts
        (20, 0, 5.0, 200.0),
        (20, 500, 0.0, None),
    ],
)
def test_the_end_is_foretold_by_the_higher_of_present_and_mean_rate_once_enough_has_moved(
    after: float, done: int, rate: float, expected: float | None
) -> None:
    moving = status(live=LiveActivity(bytes_per_second=rate), objects=2, bytes=1000, bytes_done=done)

    assert eta(moving, 1001.0 + after) == (None if expected is None else pytest.approx(expected))
