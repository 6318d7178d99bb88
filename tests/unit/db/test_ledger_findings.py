"""Findings about the end of the ledger."""

from __future__ import annotations

from seqferry.db.record import audit_ledger
from seqferry.db.record.findings import MAX_NAMED_OBJECTS, KnownHead
from seqferry.db.record.ledger import Head


def _known(count: int, where: str, entries: dict[int, str] | None = None) -> KnownHead:
    return KnownHead(Head(count, "f" * 64), where, entries or {})


def test_a_ledger_that_has_all_that_is_known_of_it_is_not_behind() -> None:
    assert list(audit_ledger._behind([], Head(3, "a" * 64))) == []


def test_a_cut_end_is_told_by_the_longest_head_that_is_known() -> None:
    known = [
        _known(5, "the anchor s3://a/5", {4: "transfer x submitted", 2: "old"}),
        _known(7, "head 1", {7: "y ended"}),
    ]

    [found] = audit_ledger._behind(known, Head(3, "a" * 64))

    assert (found.kind, found.row) == ("ledger_behind", "entry 4")
    assert "ends at entry 3, and head 1 knows entry 7" in found.message
    assert found.message.endswith(" It lacks entry 4: transfer x submitted; entry 7: y ended.")


def test_an_empty_ledger_lacks_its_first_entry() -> None:
    [found] = audit_ledger._behind([_known(1, "head 1")], Head(0, "0" * 64))

    assert found.row == "entry 1"
    assert "It lacks" not in found.message


def test_so_many_lost_entries_are_named_and_no_more() -> None:
    [found] = audit_ledger._behind([_known(99, "head 1", dict.fromkeys(range(100), "x"))], Head(0, "0" * 64))

    assert found.message.count(": x") == MAX_NAMED_OBJECTS
