"""The receipt as a document: what a person reads first, and what must never be in it."""

from __future__ import annotations

import html
import re
import time

import pytest
import sqlalchemy as sa
from control import spec_number
from ended import begin, ended

from seqferry.db.record import events
from seqferry.db.tables import event
from seqferry.model.errors import UsageError
from seqferry.model.messages.events import VERIFICATIONS
from seqferry.model.models import ENDED_TRANSFER_STATES
from seqferry.proof import receipt_page, report, transfer_record
from seqferry.service import control
from seqferry.service.service import Service
from support.run import ROOT


def _page(service: Service, transfer_id: str, page: int = 1) -> str:
    return "".join(report.stream(service.database, transfer_id, "html", page=page))


def _words(page: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page.partition("<h1>")[2])))


def test_it_begins_with_a_sentence_and_has_no_id_in_its_title(service: Service) -> None:
    transfer_id = ended(service, batches=1, each=3)
    control.set_description(service, transfer_id, actor="bob", name="Run 42", labels={"project": "X"})

    page = _page(service, transfer_id)
    words = _words(page)

    assert "<h1>Receipt: Run 42</h1>" in page
    assert transfer_id not in page.partition("<h2>")[0]
    assert "of 3 objects" in words.partition("Totals")[0]
    assert "project=X" in words
    headings = re.findall("<h2>(.*?)</h2>", page)
    assert headings[0] == "Totals"
    assert headings[-2:] == ["Objects", "How to check this document"]
    assert page.index("Options as they are recorded") > page.index("How to check this document")
    assert f"seqferry audit verify {transfer_id} --head" in words


def test_saved_as_a_file_it_loads_and_runs_nothing(service: Service) -> None:
    found = ended(service, batches=1, each=1)
    head, _, body = _page(service, found).partition("</head>")

    assert head.index('http-equiv="Content-Security-Policy" content="default-src \'none\'') < head.index("<style>")
    assert "style=" not in body  # the policy allows the style of the head alone


def test_acts_of_people_are_in_words_with_utc(service: Service) -> None:
    transfer_id = ended(service, batches=1, each=1)
    control.set_description(service, transfer_id, actor="bob", name="Run 43")

    acts = _words(_page(service, transfer_id)).partition("What was done, and by whom")[2].partition("Objects")[0]

    assert "submitted the transfer" in acts
    assert "bob named it “Run 43”" in acts
    assert "UTC" in acts
    assert "{" not in acts


def test_a_verification_tells_what_it_found(service: Service) -> None:
    transfer_id = ended(service, batches=1, each=1)
    found = ({"objects": 40, "same": 38, "how": "content"}, {"objects": 1, "same": 1}, {"objects": "many", "same": 1})
    with service.database.write() as connection:
        for data in found:
            events.append(connection, transfer_id, time.time(), "verified", "bob", data)

    acts = _words(_page(service, transfer_id)).partition("What was done, and by whom")[2].partition("Objects")[0]

    assert "bob the target was verified, all bytes read: 38 of 40 objects as received" in acts
    assert "bob the target was verified: 1 object as received" in acts
    assert acts.rstrip().endswith("bob verified")


def test_an_adjustment_tells_what_it_changed(service: Service) -> None:
    transfer_id = begin(service)
    control.adjust(service, transfer_id, actor="bob", max_bandwidth="50MB")
    control.adjust(service, transfer_id, actor="bob", max_bandwidth=None, priority=3)

    acts = _words(_page(service, transfer_id)).partition("What was done, and by whom")[2].partition("Objects")[0]

    with service.database.write() as connection:  # a record that was changed is told of, and stops no receipt
        of = (event.c.transfer_id == transfer_id) & (event.c.kind == "adjusted")
        first = sa.select(sa.func.min(event.c.number)).where(of).scalar_subquery()
        connection.execute(event.update().where(of, event.c.number == first).values(kind="described", data="no JSON"))
    assert "bob described" in _words(_page(service, transfer_id))
    assert "bob set max bandwidth 50MB " in acts
    assert "bob set priority 3, max bandwidth none" in acts


@pytest.mark.parametrize(
    ("actor", "words"),
    [
        ("http local from 127.0.0.1", "local (over HTTP from 127.0.0.1)"),
        ("http from from ::1", "from (over HTTP from ::1)"),
        ("http from 10.0.0.7", "a client without a token (over HTTP from 10.0.0.7)"),
        ("ada@lab-7", "ada@lab-7"),
    ],
)
def test_who_asked_stands_in_words(service: Service, actor: str, words: str) -> None:
    transfer_id = service.submit(spec_number(0), actor=actor)

    assert f"requested by {words}, has not ended" in _words(_page(service, transfer_id))


def test_local_time_stands_before_utc(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    transfer_id = ended(service, batches=1, each=1)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        page = _page(service, transfer_id)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert re.search(r"\d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d JST \(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\)", page)


def test_an_unfinished_transfer_says_so(service: Service) -> None:
    transfer_id = begin(service)

    words = _words(_page(service, transfer_id))

    assert "has not ended" in words
    assert "none yet" in words


def test_a_thousand_objects_take_less_than_a_megabyte(service: Service) -> None:
    transfer_id = ended(service, batches=1, each=1000)

    page = _page(service, transfer_id)

    assert len(page.encode()) < 1_000_000
    assert page.count('<td class="key">') == 1000


def test_objects_are_read_as_the_page_is(service: Service) -> None:
    transfer_id = ended(service, batches=1, each=1000)
    known = transfer_record.read(service.database, transfer_id, (), None)
    rest = iter(list(transfer_record.objects(service.database, known)))

    first = next(receipt_page.render(known, rest))

    assert first.startswith("<!doctype html>")
    assert len(list(rest)) > 900


def test_many_objects_are_split_into_pages(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipt_page, "OBJECTS_OF_PAGE", 40)
    monkeypatch.setattr(report, "OBJECTS_OF_PAGE", 40)
    transfer_id = ended(service, batches=2, each=50)

    pages = [_page(service, transfer_id, page=number) for number in (1, 2, 3)]

    assert [one.count('<td class="key">') for one in pages] == [40, 40, 20]
    assert "Objects 41 to 80 of 100: page 2 of 3." in _words(pages[1])
    keys = [key for one in pages for key in re.findall('<td class="key">(.*?)<td', one)]
    assert len(set(keys)) == 100
    with pytest.raises(UsageError, match="There is no page 4: the receipt has 3 pages"):
        _page(service, transfer_id, page=4)
    with pytest.raises(UsageError, match="Only HTML has pages"):
        list(report.stream(service.database, transfer_id, "csv", page=2))


def test_each_kind_of_verification_says_what_it_proves() -> None:
    words = re.findall(
        r'Self::\w+ => "(\w+)"',
        (ROOT / "crates/transfer/src/object_outcome.rs").read_text().split("fn as_str")[3].split("impl ")[0],
    )

    assert set(words) >= {"checksum", "content"}, "the words of the engine are no longer there"
    assert set(VERIFICATIONS) == set(words)
    assert set(receipt_page.STATES) == ENDED_TRANSFER_STATES
