"""The processes that are called ``aws`` and ``s5cmd``: signals, and exit codes of what was not foreseen."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from seqferry.nextflow import aws, s5cmd, session, shim


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_work_and_no_longer_than_that(number: int) -> None:
    before = {each: signal.getsignal(each) for each in session._STOPPING}
    caught: list[int] = []

    with session.on_signals(caught.append):
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)

    assert caught == [number, number]
    assert {each: signal.getsignal(each) for each in session._STOPPING} == before


def test_handlers_come_back_where_the_work_fails() -> None:
    before = {each: signal.getsignal(each) for each in session._STOPPING}

    with pytest.raises(ValueError, match="no"), session.on_signals(lambda _number: None):
        raise ValueError("no")

    assert {each: signal.getsignal(each) for each in session._STOPPING} == before


def _fail(error: BaseException) -> Callable[[object], int]:
    def run(_words: object) -> int:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (SystemExit(253), 253, ""),
        (SystemExit("text"), 1, ""),
        (SystemExit(None), 1, ""),
        (BrokenPipeError(), 141, ""),
        (ValueError("one\ntwo"), 1, "aws: unexpected ValueError: one (set SEQFERRY_DEBUG=1 to see where)\n"),
        (ValueError(), 1, "aws: unexpected ValueError: (no message) (set SEQFERRY_DEBUG=1 to see where)\n"),
        (MemoryError(), 1, "aws: The system gives this process no more memory"),
    ],
)
def test_an_end_that_was_not_foreseen_is_one_line_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, said: str
) -> None:
    monkeypatch.setattr(aws, "run", _fail(error))

    assert shim.run("aws", []) == code

    shown = capsys.readouterr().err
    assert shown.startswith(said)
    assert "Traceback" not in shown
    assert shown.count("\n") == (1 if said else 0)


def test_with_debugging_the_error_itself_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQFERRY_DEBUG", "1")
    monkeypatch.setattr(s5cmd, "run", _fail(ValueError("here")))

    with pytest.raises(ValueError, match="here"):
        shim.run("s5cmd", [])


def test_each_name_is_its_own_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aws, "run", lambda words: len(words))
    monkeypatch.setattr(s5cmd, "run", lambda words: 10 + len(words))

    assert shim.run("aws", ["a"]) == 1
    assert shim.run("s5cmd", ["a"]) == 11


@pytest.mark.parametrize(("source", "target"), [("s3://b/k", "-"), ("a", "b")])
def test_a_pipe_becomes_a_file_that_is_gone_afterwards(source: str, target: str) -> None:
    with session._replace_pipes(source, target) as (from_, to):
        assert from_ == source
        is_replaced = to != target
        folder = Path(to).parent
        assert not is_replaced or folder.is_dir()

    assert is_replaced is (target == "-")
    assert not is_replaced or not folder.exists()
