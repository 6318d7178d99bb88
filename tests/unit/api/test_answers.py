"""Answers of the API: statuses and texts of problems, fields that are at fault, cursors, ids and frames of streams."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

import pytest
from fastapi import Request
from hypothesis import given
from hypothesis import strategies as st

from seqferry.api import deps, feed, problems, wrong_field
from seqferry.api.progress_feed import ProgressFeed
from seqferry.api.routes import places
from seqferry.db.feed import MAX_DATA
from seqferry.model import errors
from seqferry.model.errors import NotFoundError, SeqferryError, StorageError, UsageError
from seqferry.model.models import Event
from seqferry.settings.tokens import Identity


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("no"), 400),
        (errors.NoMatchError("no"), 500),
        (NotFoundError("no"), 404),
        (errors.ConflictError("no"), 409),
        (errors.UnsupportedError.of("x"), 409),
        (errors.PolicyError("no"), 403),
        (errors.OverloadError("no"), 503),
        (errors.WorkerBusyError("no"), 503),
        (errors.ConfigError("no"), 503),
        (errors.AccessError("no"), 500),
        (StorageError("no", "retry"), 502),
        # Asked again, it would be refused again.
        (StorageError("no", "person", "NoSuchBucket"), 400),
        (errors.StorageTimeoutError("no"), 504),
        (errors.MismatchError("no", "mismatch"), 502),
    ],
)
def test_each_error_has_a_status(error: SeqferryError, status: int) -> None:
    assert problems.status_of(error) == status


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), st.integers(1, 60))
def test_a_text_of_an_answer_is_short_and_begins_as_it_is(text: str, most: int) -> None:
    shown = problems.shorten(text, most)

    assert len(shown) <= most + 3
    assert shown == text or shown.endswith("...") or "..." in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("a b", "a b"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200 + "..."),
        ("key " + "x" * 500 + " is gone", "key " + "x" * 200 + "... is gone"),
    ],
)
def test_long_words_are_cut_and_the_rest_of_the_sentence_stays(text: str, shown: str) -> None:
    assert problems.shorten(text) == shown


def test_a_problem_is_ascii_whatever_a_client_has_sent() -> None:
    answer = problems.problem(400, "name \udcff ü", "usage", errors=[{"where": "body.x"}])

    assert answer.media_type == "application/problem+json"
    found = json.loads(bytes(answer.body).decode("ascii"))
    assert found["detail"] == "name \udcff ü"
    assert (found["title"], found["code"], found["errors"]) == ("Bad Request", "usage", [{"where": "body.x"}])


def _request(body: object = None, query: str = "") -> Request:
    given_body = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
    return Request({"type": "http", "query_string": query.encode(), "headers": [], "state": {"body": given_body}})


@pytest.mark.parametrize(
    ("request_", "options", "place"),
    [
        (_request({"part_size": 1}), ("part_size",), "body.part_size"),
        (_request({"part_size": None}), ("part_size",), None),
        (_request({"part_size": 0}), ("part_size",), "body.part_size"),
        (_request({"part_size": 1}), (), None),
        (_request({"b": 1, "a": 1}), ("a", "b"), "body.a"),
        (_request({"b": 1}), ("a", "b"), "body.b"),
        (_request({"objects": [1]}), ("keys",), "body.objects"),
        (_request({"dst_bucket": "x"}), ("target",), "body.dst_bucket"),
        (_request({"transfer": {"source": "x"}}), ("source",), "body.transfer.source"),
        (_request({"transfer": {"sources": ["x"]}}), ("source",), "body.transfer.sources"),
        (_request({"transfer": {"source": None}}), ("source",), None),
        (_request({"transfer": 7}), ("source",), None),
        (_request(query="state=x"), ("state",), "query.state"),
        (_request({"state": 1}, "state=x"), ("state",), "body.state"),
        (_request(b"\xff{"), ("state",), None),
        (_request(["state"]), ("state",), None),
        (_request(b'{"state": 1}' + b" " * 2**20), ("state",), None),
    ],
)
def test_a_refusal_names_the_field_that_it_is_about(request_: Request, options: tuple[str, ...], place: Any) -> None:
    assert wrong_field.find_field(request_, UsageError("no").about(*options)) == place


@pytest.mark.parametrize(
    "text", ["3f2a8c1e-0000-4000-8000-000000000000", "3F2A8C1E-0000-4000-8000-000000000000", "3f2a8c1e" + "0" * 24]
)
def test_a_whole_id_is_taken_in_any_form(text: str) -> None:
    assert deps.full_id(text) == str(uuid.UUID(text))


@pytest.mark.parametrize("text", ["", "3f2a", "3f2a8c1e-0000-4000-8000-00000000000", "x" * 36, "run42"])
def test_the_start_of_an_id_or_a_name_is_no_whole_id(text: str) -> None:
    with pytest.raises(NotFoundError, match="give all 36 characters"):
        deps.full_id(text)


def _identity(name: str) -> Identity:
    return Identity(name, "submit")


@pytest.mark.parametrize(
    ("name", "actor", "is_client"),
    [
        ("ada", "http ada from 10.1.2.3", True),
        ("ada", "http ada2 from 10.1.2.3", False),
        ("ada", "ada@lab", False),
        ("ada", "http from 10.1.2.3", False),
        ("", "http from 10.1.2.3", True),
        ("from", "http from 10.1.2.3", True),
    ],
)
def test_an_actor_is_the_client_with_its_token(name: str, actor: str, is_client: bool) -> None:
    assert deps.is_client(_identity(name), actor) is is_client


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_page_token_comes_back_from_its_cursor(token: str) -> None:
    assert places._token(base64.urlsafe_b64encode(token.encode()).decode()) == token


@pytest.mark.parametrize("cursor", ["a", "abc", "_w==", "ü"])
def test_a_cursor_of_another_list_is_refused(cursor: str) -> None:
    with pytest.raises(UsageError, match="cursor is not one of this list"):
        places._token(cursor)


@pytest.mark.parametrize(("name", "shown"), [("läufe", "läufe"), ("\udcff", "\\udcff"), ("a\nb", "a\nb")])
def test_a_name_is_shown_as_json_can_hold_it(name: str, shown: str) -> None:
    assert places._escape(name) == shown


def _event(data: dict[str, Any]) -> Event:
    return Event(7, 1.5, "copied", "ada@lab", data, "f" * 64)


@pytest.mark.parametrize("data", [{}, {"key": "a\nb\r\n\n", "ü": ["\udcff"]}, {"text": "x" * 1000}])
def test_a_frame_holds_its_event_on_one_line(data: dict[str, Any]) -> None:
    head, kind, body, *rest = feed.frame(_event(data), "9~x", transfer_id="t").decode().split("\n")

    assert (head, kind, rest) == ("id: 9~x", "event: copied", ["", ""])
    found = json.loads(body.removeprefix("data: "))
    assert found.pop("data") == data
    assert found == {
        "transfer_id": "t",
        "number": 7,
        "at": "1970-01-01T00:00:01.500000Z",
        "kind": "copied",
        "text": "copied",
        "actor": "ada@lab",
        "hash": "f" * 64,
    }


def test_data_that_are_too_long_for_a_frame_are_left_out_and_said_to_be() -> None:
    frame = feed.frame(_event({"keys": ["k" * 100] * 1000}))

    assert frame.startswith(b"id: 7\n")
    assert len(frame) < MAX_DATA
    assert b'"data": {"left_out": 10' in frame


def test_a_stream_is_told_only_what_has_changed_for_it() -> None:
    progress, sent = ProgressFeed(None, lambda: None), dict[str, bytes]()
    progress._publish({"a": b"1", "b": b"1"})
    assert sorted(progress.changed_frames(sent, None)) == [b"1", b"1"]
    assert progress.changed_frames(sent, None) == []

    progress._publish({"a": b"2", "b": b"1"})
    assert progress.changed_frames(sent, None) == [b"2"]

    progress._publish({"b": b"1"})
    progress.changed_frames(sent, None)
    progress._publish({"a": b"2", "b": b"1"})
    assert progress.changed_frames(sent, None) == [b"2"]
    assert progress.changed_frames({}, {"b"}) == [b"1"]
